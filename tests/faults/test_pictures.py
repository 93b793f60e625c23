"""Rows 14, 15, 17 and 24: odd, damaged and vanishing pictures: one reading of all loaders, or a refusal by name."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.manifest import NONSTANDARD
from mptctl.data.split import Split, load_split, make_split
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe
from tests.common import CPU, IN_MEMORY, KINDS, CommandLine, MakeLoader, damage, levels, smooth_picture
from tests.faults.process import run_forked, without_override
from tests.forked import process_of

SIDE = 32


def odd_pictures(folder: Path) -> dict[str, Path]:
    """Pictures of 32 x 32 that decoders are known to disagree on, all named .jpg."""
    colour = smooth_picture(SIDE, SIDE, 1)
    mask = Image.linear_gradient("L").resize((SIDE, SIDE))
    transparent = colour.copy()
    transparent.putalpha(mask)
    palette = colour.convert("P")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    saved = {
        "grey": lambda path: colour.convert("L").save(path, "JPEG"),
        "cmyk": lambda path: colour.convert("CMYK").save(path, "JPEG"),
        "rotated": lambda path: colour.save(path, "JPEG", exif=exif),
        "stored as rgb": lambda path: colour.save(path, "JPEG", keep_rgb=True),
        "progressive": lambda path: colour.save(path, "JPEG", progressive=True),
        "png": lambda path: colour.save(path, "PNG"),
        "grey png": lambda path: colour.convert("L").save(path, "PNG"),
        "transparent": lambda path: transparent.save(path, "PNG"),
        "grey and transparent": lambda path: transparent.convert("LA").save(path, "PNG"),
        "palette": lambda path: palette.save(path, "PNG"),
        "transparent palette": lambda path: palette.save(path, "PNG", transparency=bytes(range(256))),
        "one bit": lambda path: colour.convert("1").save(path, "PNG"),
        "phone": lambda path: colour.save(path, "MPO", save_all=True, append_images=[colour.transpose(0)]),
    }
    folder.mkdir(parents=True)
    paths = {name: folder / f"{name.replace(' ', '-')}.jpg" for name in saved}
    for name, save in saved.items():
        save(paths[name])
    return paths


def split_of_data(folder: Path, *, overwrite: bool = False) -> Split:
    """A split of the pictures in ``data``, all classes old, none held out."""
    return make_split(
        "imagefolder", run_root=folder / "runs", data_root=folder / "data", val_fraction=0.0,
        old_fraction=1.0, overwrite=overwrite,
    )  # fmt: skip


def pillow(path: Path) -> np.ndarray:
    """What Pillow reads."""
    return np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB"))


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("kind", KINDS)
def test_row_15_odd_pictures_are_what_pillow_says_from_every_loader(
    tmp_path: Path, loader_of: MakeLoader, kind: str
) -> None:
    odd_pictures(tmp_path / "data" / "train" / "one")
    paths = odd_pictures(tmp_path / "data" / "val" / "one")
    split = split_of_data(tmp_path)
    assert 0 < (split.manifest.kinds == NONSTANDARD).sum() < len(split.manifest)
    loader = loader_of(split, kind, part="test", train=False, batch_size=4, image_size=SIDE)
    expected = {f"val/one/{path.name}": pillow(path) for path in paths.values()}
    seen = 0
    for batch in loader.epoch(0):
        for image, name in zip(levels(loader, batch.images), split.ids(batch.index.numpy()), strict=True):
            found = image.permute(1, 2, 0).numpy()
            assert abs(found - expected[name]).max() < 0.01, name
            seen += 1
    assert seen == len(expected)
    for index in split.indices("test").tolist():
        np.testing.assert_array_equal(split.picture(index), expected[split.ids(np.array([index]))[0]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["gone", "text", "cut", "other picture"])
def test_row_17_a_file_that_changes_after_split_is_named(
    own_folder: Path, tmp_path: Path, loader_of: MakeLoader, kind: str, how: str
) -> None:
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder, val_fraction=0.0)
    victim = own_folder / "train" / "class1" / "004.jpg"
    if how == "other picture":
        smooth_picture(60, 60, 999).save(victim)
    else:
        damage(victim, how)
    with pytest.raises(DataError, match=r"class1/004\.jpg: (gone|changed) since split.*--overwrite"):
        list(loader_of(split, kind, image_size=150).epoch(0))


@pytest.mark.parametrize("kind", KINDS)
def test_row_17_pictures_replaced_at_the_same_size_and_split_again_are_read_anew(
    tmp_path: Path, loader_of: MakeLoader, kind: str
) -> None:
    def seen_of_inverted(inverted: bool) -> torch.Tensor:
        for number, part in enumerate(("train", "val")):
            (tmp_path / "data" / part / "one").mkdir(parents=True, exist_ok=True)
            picture = np.asarray(smooth_picture(SIDE, SIDE, number))
            file = tmp_path / "data" / part / "one" / "0.bmp"
            Image.fromarray(255 - picture if inverted else picture).save(file)
        split = split_of_data(tmp_path, overwrite=True)
        loader = loader_of(split, kind, part="test", train=False, image_size=SIDE)
        return levels(loader, next(iter(loader.epoch(0))).images)

    before, after = seen_of_inverted(False), seen_of_inverted(True)
    torch.testing.assert_close(after, 255 - before, atol=0.01, rtol=0)


# DALI is known to end the process on such files, and torchvision on damaged PNG files. Their size and time are as
# before, so that they pass for unchanged: what is left is to survive, to name the file, and to go on afterwards.
def read_damaged(root: Path, kind: str, said: Path) -> None:
    """Read a training part with a picture in it that is damaged in several ways, and without; say what happened."""
    split = load_split(root)
    data = DataRecipe.model_validate({"loader": kind, "threads": 2, "augment": "random-resized-crop"})
    loader = make_loader(LoadPlan(split, data, "train", batch_size=8, seed=0, train=True, device=CPU))
    victim = Path(split.manifest.file(int(split.indices("train")[13])))
    before, content = victim.stat(), victim.read_bytes()
    length = len(content)
    damages = [b"hello" * length, bytes(length), content[:100] + bytes(length)]
    if content.startswith(b"\x89PNG"):  # a JPEG's body may be anything
        damages.append(content[:100] + bytes(length - 120) + content[-20:])
    for content_now in damages:
        victim.write_bytes(content_now[:length])
        os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
        try:
            list(loader.epoch(1))
            found = "no error"
        except DataError as error:
            found = f"refused {victim.name in str(error)}"
        victim.write_bytes(content)
        os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
        again = sum(len(batch.index) for batch in loader.epoch(2))
        with said.open("a", encoding="utf-8") as file:
            file.write(f"{found}\nalive {again}\n")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in IN_MEMORY])
@pytest.mark.parametrize(("form", "damages"), [("JPEG", 3), ("PNG", 4)])
def test_row_14_a_decoders_failure_is_survived_and_the_loader_goes_on(
    own_folder: Path, tmp_path: Path, kind: str, form: str, damages: int
) -> None:
    for path in own_folder.glob("*/*/*.jpg"):
        Image.open(path).save(path, form)
    make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder, val_fraction=0.0)
    process = process_of(read_damaged, tmp_path / "runs", kind, tmp_path / "said")
    process.join()
    assert process.exitcode == 0
    assert (tmp_path / "said").read_text(encoding="utf-8").splitlines() == [
        "refused True",
        "alive 40",
    ] * damages


def test_row_14_quarantined_files_never_reach_a_loader_and_no_neighbour_takes_their_place(
    own_folder: Path, tmp_path: Path, loader_of: MakeLoader
) -> None:
    def seen(split: Split, kind: str) -> dict[str, torch.Tensor]:
        batches = list(loader_of(split, kind, batch_size=37, image_size=150).epoch(0))
        images = torch.cat([batch.images for batch in batches])
        names = [name for batch in batches for name in split.ids(batch.index.numpy()).tolist()]
        return dict(zip(names, images, strict=True))

    def split_into(runs: str) -> Split:
        keys = {"data_root": own_folder, "val_fraction": 0.0, "on_bad": "quarantine"}
        return make_split("imagefolder", run_root=tmp_path / runs, **keys)  # type: ignore[arg-type]

    clean = split_into("clean")
    whole = [f"train/class{label}/{number:03}.jpg" for label in range(4) for number in range(10)]
    before = seen(clean, "dali")
    bad = {"002": b"", "005": b"text", "007": b"\xff\xd8\xff\xe0"}
    for name, content in bad.items():
        (own_folder / "train" / "class2" / f"{name}.jpg").write_bytes(content)
    split = split_into("runs")
    for kind in KINDS:
        found = seen(split, kind)
        assert sorted(found) == [name for name in whole if name not in {f"train/class2/{b}.jpg" for b in bad}]
        if kind == "dali":
            assert all(torch.equal(image, before[name]) for name, image in found.items() if name in before)


@pytest.mark.parametrize(
    ("place", "is_readable"),
    [
        ("nothing", True),
        ("train/class0/000.jpg", True),
        ("train/class0", True),  # of which every picture goes
        (".", True),
        (".", False),
        ("train/class1", False),
    ],
)
def test_row_24_a_data_folder_that_cannot_be_used(
    own_folder: Path, tmp_path: Path, place: str, is_readable: bool
) -> None:
    root = own_folder / place
    for path in root.rglob("*.jpg") if is_readable else ():
        path.unlink()
    if not is_readable:
        root.chmod(0)
        root = own_folder
    words = ("split", "imagefolder", "--data-root", root, "--run-root", tmp_path / "runs")
    done = run_forked(*words, before=without_override)
    if not is_readable:
        (own_folder / place).chmod(0o755)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
    assert root.name in done.stderr


def test_row_24_folders_of_ours_that_cannot_be_read(runs: Path) -> None:
    for folder in (runs / "new", runs):
        folder.chmod(0)
        done = run_forked("evaluate", "old", "new", "--run-root", runs, before=without_override)
        folder.chmod(0o755)
        assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
        assert "best.pt: Permission denied; check its rights" in done.stderr


def test_row_14_bad_pictures_are_listed_before_anything_is_trained(
    own_folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    bad = {"000": b"", "001": b"no picture", "002": b"\xff\xd8\xff\xe0", "003": b"GIF89a" + bytes(20)}
    for name, content in bad.items():
        (own_folder / "train" / "class2" / f"{name}.jpg").write_bytes(content)
    cut = own_folder / "train" / "class2" / "004.jpg"
    cut.write_bytes(cut.read_bytes()[:-200])
    words = ("split", "imagefolder", "--data-root", own_folder, "--run-root", tmp_path / "runs")
    done = mptctl(*words)
    assert done.returncode == 4
    assert all(f"class2/{name}.jpg" in done.stderr for name in (*bad, "004"))
    assert not (tmp_path / "runs" / "split.json").exists()
    done = mptctl(*words, "--on-bad", "quarantine")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("kept out: ") == 5
