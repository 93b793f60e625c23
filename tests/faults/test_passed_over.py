"""Row 73: pictures beside JPEG and PNG are read, or counted and named; nothing is passed over without a word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data.split import load_split
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from tests.common import CommandLine, MakeLoader

KINDS = ("webp", "bmp", "gif", "tiff", "tif", "jfif")


def draw(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (40, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two classes whose pictures are half PNG, half of the other kinds."""
    for number, kind in enumerate((*KINDS, *["png"] * len(KINDS))):
        for place, name in enumerate(("cat", "dog")):
            draw(tmp_path / "mixed" / "train" / name / f"{number}.{kind}", number + 1000 * place)
            draw(tmp_path / "mixed" / "val" / name / f"{number}.{kind}", 100 + number + 1000 * place)
    return tmp_path / "mixed"


def split_of(mptctl: CommandLine, folder: Path, *flags: object) -> tuple[int, str, str]:
    words = ("split", "imagefolder", "--data-root", folder, "--run-root", folder.parent / "runs", *flags)
    done = mptctl(*words, "--val-fraction", "0", "--json")
    return done.returncode, done.stdout, done.stderr


def test_row_73_other_kinds_are_read_by_every_loader(
    mptctl: CommandLine, mixed: Path, loader_of: MakeLoader
) -> None:
    code, out, err = split_of(mptctl, mixed)
    assert (code, err) == (0, "")
    assert json.loads(out)["quarantined"] == []
    split = load_split(mixed.parent / "runs")
    assert len(split.indices("train")) == len(split.indices("test")) == 4 * len(KINDS)
    passes = []
    for kind in ("resident", "threaded"):
        loader = loader_of(split, kind, part="test", train=False, batch_size=24)
        passes.append(next(iter(loader.epoch(0, 0))).images)
    assert (passes[0] == passes[1]).all()


def test_row_73_what_is_not_read_is_counted_by_suffix(mptctl: CommandLine, mixed: Path) -> None:
    cat = mixed / "train" / "cat"
    for name in ("a.heic", "b.heic", "c.psd", ".DS_Store", "c.json"):
        (cat / name).write_bytes(b"x")
    draw(cat / "deeper" / "1.png", 1)
    code, _, err = split_of(mptctl, mixed)
    assert code == 0
    assert err.splitlines() == [
        "warning: passed over pictures of kinds that are not read: 2 .heic, 1 .psd; convert them to PNG or JPEG",
        "warning: passed over 1 pictures that do not lie right in a class folder (train/cat/deeper/1.png); move "
        "them into one",
        "passed over 2 files that are no pictures",
    ]
    done = mptctl("pack", mixed, mixed.parent / "small", "--short-side", "20")
    assert (done.returncode, done.stderr) == (0, err)


@pytest.mark.parametrize("kind", KINDS)
def test_row_73_a_file_of_another_kind_that_is_cut_off_is_refused(
    mptctl: CommandLine, mixed: Path, kind: str
) -> None:
    (path,) = (mixed / "train" / "cat").glob(f"*.{kind}")
    path.write_bytes(path.read_bytes()[:-200])
    code, _, err = split_of(mptctl, mixed)
    assert code == 4
    assert str(path) in err


def test_row_73_more_than_8_bits_and_another_kind_than_the_suffix_says_are_refused(
    mptctl: CommandLine, mixed: Path
) -> None:
    deep, other = mixed / "train" / "cat" / "deep.tiff", mixed / "train" / "cat" / "other.gif"
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(deep)
    Image.new("RGB", (4, 4)).save(other, format="WEBP")
    code, _, err = split_of(mptctl, mixed)
    assert code == 4
    assert f"{deep}: 16 bits a channel or more; save it with 8" in err
    assert f"{other}: is WEBP, not GIF" in err


def test_row_73_predict_answers_all_pictures_or_ends_with_4(
    mptctl: CommandLine, mixed: Path, tmp_path: Path
) -> None:
    recipe = load_recipe("digits", ["data.image_size=32", "data.threads=1"])
    model = build_model(recipe.model, 2, recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=("cat", "dog"), num_old=1)
    save_checkpoint(tmp_path / "runs" / "mine" / "best.pt", meta, model.state_dict())
    (mixed / "val" / "notes.txt").write_text("x")
    words = ("predict", "mine", mixed / "val", "--out", tmp_path / "out.csv", "--run-root", tmp_path / "runs")
    done = mptctl(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "passed over 1 files that are no pictures",
        f"{4 * len(KINDS)} pictures predicted, 0 left out",
    ]
    (mixed / "val" / "IMG_1.HEIC").write_bytes(b"x")
    done = mptctl(*words)
    assert done.returncode == 4
    assert "1 of 25 pictures cannot be used" in done.stderr
    assert "IMG_1.HEIC: .heic is not read; convert it to PNG or JPEG" in done.stderr
    done = mptctl(*words, "--on-bad", "quarantine")
    assert done.returncode == 0, done.stderr
    assert f"{4 * len(KINDS)} pictures predicted, 1 left out" in done.stderr
