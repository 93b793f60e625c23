"""The loader bench runs every row for real, and says what it measured in the contract's words."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.bench.loader import LoaderBench, bench_loader
from mptctl.bench.opponents import PictureFiles
from mptctl.bench.runners import ROWS
from mptctl.bench.sources import find_pictures
from mptctl.cli.app import main
from mptctl.data.loading.choose import LOADERS
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe, load_recipe
from tests.common import CommandLine


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 JPEGs of 60 x 50 below train/."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(24):
        folder = root / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8))
        small.resize((50, 60), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg")
    return root


SMALL = ["data.image_size=24", "data.threads=1", "optim.batch_size=8", "model.stem=small"]


@pytest.mark.slow  # workers of a DataLoader import torch first
@pytest.mark.parametrize("augment", ["random-resized-crop", "pad-crop"])
def test_every_row_is_measured_or_skipped_with_a_reason(
    pictures: Path, augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptctl.bench.runners.usable_cores", lambda: 1)
    # Each run of a DataLoader starts workers, which import torch.
    rows, repeats = ROWS, 1
    if augment != "pad-crop":
        rows, repeats = tuple(name for name in ROWS if "dataloader" not in name), 2
    said: list[str] = []
    found = bench_loader(
        load_recipe("imagenet", [*SMALL, f"data.augment={augment}"]),
        data_root=pictures,
        rows=rows,
        repeats=repeats,
        seconds=0.1,
        device=torch.device("cpu"),
        say=said.append,
    )
    assert {row.name for row in found.rows} | set(found.skipped) == set(rows)
    edges = {"dali-cpu": "DALI resizes the edges of pictures in its own way, and they are seen"}
    assert found.skipped == {"dali-mixed": "no CUDA device"} | (edges if augment == "pad-crop" else {})
    assert all(len(row.runs) == repeats and row.images_per_s > 0 for row in found.rows)
    assert found.pictures == 24
    assert len([line for line in said if line.startswith("run ")]) == repeats * len(found.rows)
    assert LoaderBench.model_validate_json(found.model_dump_json()) == found


def test_the_opponents_transforms_are_those_of_the_recipe(pictures: Path) -> None:
    steps = [
        {"name": "color-jitter", "brightness": 0.2, "p": 0.5},
        {"name": "rand-augment", "magnitude": 5, "interpolation": "bilinear"},
        {"name": "trivial-augment", "fill": [1, 2, 3]},
        {"name": "grayscale", "p": 1},
        {"name": "gaussian-blur", "kernel_size": 3},
        {"name": "rotation", "degrees": 5},
        {"name": "random-erasing", "p": 1, "value": "random"},
    ]
    data = DataRecipe.model_validate({"image_size": 24, "transforms": steps, "interpolation": "bicubic"})
    files = sorted(str(path) for path in pictures.glob("train/*/*"))[:3]
    for reader in ("torchcodec", "pil"):
        dataset = PictureFiles(files, [0, 0, 0], data, reader)  # type: ignore[arg-type]
        names = [type(step).__name__ for step in dataset.transform.transforms]  # type: ignore[attr-defined]
        assert names[-1] == "RandomErasing"
        assert [name for name in names if "Augment" in name] == ["RandAugment", "TrivialAugmentWide"]
        assert dataset[0][0].shape == (3, 24, 24)


def test_json_is_one_object_and_a_sweep_gives_lines_to_paste(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "loader", "--data-root", str(pictures), "--rows", "dali-cpu", "--repeats", "1"]
    arguments += ["--seconds", "0.1", "--sweep", *(part for key in SMALL for part in ("--set", key))]
    for extra in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["mptctl", *arguments, *extra])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    text, _, rest = capsys.readouterr().out.partition('{"bench"')
    found = json.loads('{"bench"' + rest)
    assert found["bench"] == "loader"
    assert [row["name"] for row in found["rows"]] == ["dali-cpu"]
    assert set(found["sweep"]["settings"]) == {"threads", "prefetch"}
    assert "data:\n  threads: " in text


def test_a_wrong_row_and_a_folder_without_pictures_are_refused(tmp_path: Path, mptctl: CommandLine) -> None:
    done = mptctl("bench", "loader", "--rows", "fast")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mptctl: --rows fast: unknown; valid: resident")
    with pytest.raises(DataError, match="train/"):
        bench_loader(load_recipe("imagenet"), data_root=tmp_path)


def test_pictures_come_from_a_folder_or_a_tar_file_of_one(pictures: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pictures.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(pictures, "some-name")
    said: list[str] = []
    found = find_pictures(archive, tmp_path / "data", said.append)
    assert sorted(path.relative_to(found) for path in found.glob("train/*/*")) == sorted(
        path.relative_to(pictures) for path in pictures.glob("train/*/*")
    )
    assert said == ["unpacking pictures.tar.gz"]
    assert find_pictures(pictures, tmp_path / "other", said.append) == pictures
    archive.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"pictures\.tar\.gz: .*; give a folder with train/CLASS"):
        find_pictures(archive, tmp_path / "third", said.append)


def test_both_readers_of_the_opponent_see_the_same_picture(pictures: Path) -> None:
    files = sorted(str(path) for path in pictures.glob("train/*/*"))[:3]
    data = DataRecipe(image_size=24, augment="none", flip=False)
    one, other = (PictureFiles(files, [0, 0, 0], data, reader) for reader in ("torchcodec", "pil"))
    for row in range(3):
        assert (one[row][0] - other[row][0]).abs().max() < 1.5 / 255 / min(data.std)


def test_rows_that_need_dali_are_skipped_where_it_is_not_installed(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name.startswith("nvidia") else real(name)
    )
    found = bench_loader(
        load_recipe("imagenet", SMALL),
        data_root=pictures,
        rows=("dali-cpu", "dali-mixed", "threaded"),
        repeats=1,
        seconds=0.05,
        device=torch.device("cpu"),
    )
    assert [row.name for row in found.rows] == ["threaded"]
    assert found.skipped == {
        "dali-cpu": "DALI is not installed",
        "dali-mixed": "no CUDA device",
    }


def test_every_kind_of_loader_is_a_row() -> None:
    assert {kind.name for kind in LOADERS} < set(ROWS)
