"""Row 87: pictures with an EXIF rotation: turned or not, as data.exif says, by all who decode, import and export."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from mptctl.data.loading.base import Loader
from mptctl.data.manifest import NONSTANDARD
from mptctl.data.split import Split, load_split, make_split
from mptctl.inference.loaded import Transform
from mptctl.machine.jpeg_decoder import JpegDecoder
from mptctl.recipe import DataRecipe
from tests.common import IN_MEMORY, KINDS, CommandLine, MakeLoader, levels
from tests.faults.phone_pictures import (
    HEIGHT,
    ORIENTATION,
    centre,
    phone_picture,
    phone_pictures,
    stored,
    upright,
)


def write_folder(root: Path, pictures: dict[str, bytes]) -> Path:
    """The same pictures in both parts, of one class."""
    for part in ("train", "val"):
        (root / part / "one").mkdir(parents=True)
        for name, content in pictures.items():
            (root / part / "one" / name).write_bytes(content)
    return root


def as_folder(root: Path, pictures: dict[str, bytes], run: CommandLine) -> list[object]:
    return [write_folder(root / "data", pictures)]


def as_shards(root: Path, pictures: dict[str, bytes], run: CommandLine) -> list[object]:
    assert (
        run("pack", write_folder(root / "data", pictures), root / "shards", "--to", "shards").returncode == 0
    )
    return [f"{root}/shards/*.tar"]


def as_table(root: Path, pictures: dict[str, bytes], run: CommandLine) -> list[object]:
    write_folder(root / "data", pictures)
    rows = [f"data/{part}/one/{name},one,{part}" for part in ("train", "val") for name in pictures]
    (root / "table.csv").write_text("\n".join(["path,label,split", *rows]))
    return [root / "table.csv"]


def as_parquet(root: Path, pictures: dict[str, bytes], run: CommandLine, *more: object) -> list[object]:
    (root / "tables").mkdir()
    for part in ("train", "test"):
        images = [{"bytes": content, "path": name} for name, content in pictures.items()]
        table = pa.table({"image": images, "label": ["one"] * len(images)})
        pq.write_table(table, root / "tables" / f"{part}-00000-of-00001.parquet")
    done = run("pack", f"{root}/tables/*.parquet", root / "packed", *more)
    assert done.returncode == 0, done.stderr
    return [root / "packed"]


Place = Callable[[Path, dict[str, bytes], CommandLine], list[object]]


def split_of(root: Path, words: list[object], run: CommandLine) -> Split:
    done = run("split", *words, "--run-root", root / "runs", "--old-fraction", 1.0, "--val-fraction", 0)
    assert done.returncode == 0, done.stderr
    return load_split(root / "runs")


def names_of(split: Split, rows: NDArray[np.int64]) -> list[str]:
    return [name.rpartition("/")[2] for name in split.ids(rows).tolist()]


def assert_read(loader: Loader, split: Split, expected: Callable[[str], NDArray[np.uint8]]) -> None:
    """A pass of the test part gives, for each picture, the centre of what is expected of its name."""
    seen = 0
    for batch in loader.epoch(0):
        images = levels(loader, batch.images).permute(0, 2, 3, 1).numpy()
        for image, name in zip(images, names_of(split, batch.index.numpy()), strict=True):
            assert abs(image - centre(expected(name))).max() < 0.01, name
            seen += 1
    assert seen == len(split.indices("test"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [as_folder, as_shards, as_table, as_parquet])
def test_row_87_every_loader_turns_pictures_from_every_source_as_pillow_does(
    tmp_path: Path, mptctl: CommandLine, loader_of: MakeLoader, place: Place, kind: str
) -> None:
    """Stored as they are unless they are to be turned. All loaders keep what they decode in one folder, and none
    takes pictures decoded in one way for the other."""
    pictures = phone_pictures()
    split = split_of(tmp_path, place(tmp_path, pictures, mptctl), mptctl)
    for setting, read in (({}, stored), ({"exif": "apply"}, upright), ({"exif": "ignore"}, stored)):
        loader = loader_of(split, kind, part="test", train=False, batch_size=5, **setting)
        assert_read(loader, split, lambda name, read=read: read(pictures[name]))  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("augment", ["random-resized-crop", "pad-crop"])
def test_row_87_turned_pictures_train_as_pictures_that_are_upright(
    tmp_path: Path, loader_of: MakeLoader, kind: str, augment: str
) -> None:
    """Windows are drawn in the turned picture: sizes, crops and mirroring are those of an upright copy."""
    if kind in IN_MEMORY and augment == "random-resized-crop":
        pytest.skip("resident keeps pictures at one size")
    pictures = {f"{number:02}.jpg": phone_picture(number % 9, seed=number) for number in range(27)}
    turned = {}
    for name, content in pictures.items():
        stream = io.BytesIO()
        Image.fromarray(upright(content)).save(stream, "PNG")
        turned[name] = stream.getvalue()
    found = []
    for folder, contents, exif in (("phone", pictures, "apply"), ("upright", turned, "ignore")):
        root = write_folder(tmp_path / folder / "data", contents)
        split = make_split(
            "imagefolder", run_root=tmp_path / folder, data_root=root, val_fraction=0.0, old_fraction=1.0
        )
        loader = loader_of(split, kind, batch_size=9, augment=augment, image_size=40, exif=exif)
        found.append([(batch.index.tolist(), levels(loader, batch.images)) for batch in loader.epoch(1)])
    for (rows, images), (other_rows, others) in zip(*found, strict=True):
        assert rows == other_rows
        assert (images - others).abs().max() <= 1.001


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dali"])
def test_row_87_pillow_alone_turns_them_too(
    tmp_path: Path, mptctl: CommandLine, loader_of: MakeLoader, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("mptctl.data.pictures", "mptctl.data.loading.resident", "mptctl.data.loading.base"):
        monkeypatch.setattr(f"{place}.jpeg_decoder", lambda: JpegDecoder("Pillow", None))
    pictures = phone_pictures()
    split = split_of(tmp_path, as_folder(tmp_path, pictures, mptctl), mptctl)
    loader = loader_of(split, kind, part="test", train=False, exif="apply")
    assert_read(loader, split, lambda name: upright(pictures[name]))


def with_segments(*segments: bytes) -> bytes:
    """A picture with APP1 segments before all others."""
    content = phone_picture(0, seed=7)
    headed = b"".join(b"\xff\xe1" + struct.pack(">H", len(each) + 2) + each for each in segments)
    return content[:2] + headed + content[2:]


def exif_data(orientation: int, *, kind: int = 3, order: str = "<") -> bytes:
    """An EXIF segment with one entry; kind 3 is a short, 4 a long, 1 a byte."""
    value = struct.pack(order + {1: "B", 3: "H", 4: "I"}[kind], orientation).ljust(4, b"\0")
    entry = struct.pack(order + "HHI", ORIENTATION, kind, 1) + value
    header = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + header + struct.pack(order + "H", 1) + entry + bytes(4)


def behind(content: bytes) -> bytes:
    """A picture whose EXIF segment stands before its last scan."""
    place = content.rindex(b"\xff\xda")
    segment = exif_data(6)
    return content[:place] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + content[place:]


def odd_tags() -> dict[str, bytes]:
    """Orientations that decoders are known to read in different ways, or not at all."""
    late, several = (behind(phone_picture(0, seed=7, progressive=each)) for each in (False, True))
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta tiff:Orientation="6"/>'
    return {
        "big endian": with_segments(exif_data(6, order=">")),
        "long": with_segments(exif_data(6, kind=4)),
        "long, big endian": with_segments(exif_data(6, kind=4, order=">")),
        "byte": with_segments(exif_data(6, kind=1)),
        "of no meaning": with_segments(exif_data(9)),
        "twice": with_segments(exif_data(6), exif_data(8)),
        "upright, then turned": with_segments(exif_data(1), exif_data(8)),
        "empty, then turned": with_segments(b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0", exif_data(6)),
        "damaged": with_segments(b"Exif\0\0II*\0\x08\0\0\0\x09\0\x12\x01"),
        "damaged, then turned": with_segments(b"Exif\0\0xx", exif_data(6)),
        "by XMP": with_segments(xmp),
        "by XMP and EXIF": with_segments(xmp, exif_data(8)),
        "late": late,
        "late, of several scans": several,
    }


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("kind", KINDS)
def test_row_87_tags_that_decoders_disagree_on_are_read_as_pillow_does(
    tmp_path: Path, loader_of: MakeLoader, kind: str
) -> None:
    pictures = {f"{name}.jpg": content for name, content in odd_tags().items()}
    root = write_folder(tmp_path / "data", pictures)
    split = make_split("imagefolder", run_root=tmp_path, data_root=root, val_fraction=0.0, old_fraction=1.0)

    def expected(name: str) -> NDArray[np.uint8]:
        try:
            return upright(pictures[name])
        except (SyntaxError, struct.error):
            return stored(pictures[name])

    for exif, read in (("apply", expected), ("ignore", lambda name: stored(pictures[name]))):
        assert_read(loader_of(split, kind, part="test", train=False, exif=exif), split, read)
    assert (split.manifest.kinds == NONSTANDARD).any()


def test_row_87_split_counts_them_in_one_sentence_or_says_nothing(
    tmp_path: Path, folder: Path, mptctl: CommandLine
) -> None:
    (root,) = as_folder(tmp_path, phone_pictures(), mptctl)
    for place, rotated in ((root, 34), (folder, 0)):
        words = (
            "split", place, "--run-root", tmp_path / str(rotated), "--val-fraction", 0, "--old-fraction", 1,
        )  # fmt: skip
        done = mptctl(*words)
        assert done.returncode == 0, done.stderr
        sentence = "34 pictures have an EXIF rotation, which is ignored unless data.exif=apply"
        assert " ".join(done.stdout.split()).count(sentence) == done.stdout.count("EXIF") == (rotated > 0)
        assert json.loads(mptctl(*words, "--json").stdout)["rotated"] == rotated


@pytest.mark.parametrize("form", ["folder", "shards"])
def test_row_87_a_smaller_copy_keeps_the_rotation_of_its_pictures(
    tmp_path: Path, mptctl: CommandLine, loader_of: MakeLoader, form: str
) -> None:
    pictures = phone_pictures()
    (packed,) = as_parquet(tmp_path, pictures, mptctl, "--short-side", 20, "--to", form)
    place = f"{packed}/*.tar" if form == "shards" else packed
    split = split_of(tmp_path, [place], mptctl)
    for exif, read in (("ignore", stored), ("apply", upright)):
        loader = loader_of(
            split, "threaded", part="test", train=False, batch_size=30, exif=exif, image_size=20
        )
        (batch,) = loader.epoch(0)
        images = levels(loader, batch.images).permute(0, 2, 3, 1).numpy()
        for image, name in zip(images, names_of(split, batch.index.numpy()), strict=True):
            content = next(each for file, each in pictures.items() if Path(file).stem == Path(name).stem)
            small = Image.fromarray(read(content))
            small.thumbnail((30, 30), Image.Resampling.BILINEAR)
            assert abs(image - centre(np.asarray(small), 20).astype(float)).mean() < 8, (exif, name)


@pytest.mark.parametrize(("exif", "read"), [("apply", upright), ("ignore", stored)])
def test_row_87_a_loaded_model_sees_paths_and_pictures_of_pillow_alike(
    tmp_path: Path, exif: str, read: Callable[[bytes], NDArray[np.uint8]]
) -> None:
    transform = Transform(DataRecipe.model_validate({"image_size": HEIGHT, "exif": exif}))
    for name, content in phone_pictures().items():
        (tmp_path / name).write_bytes(content)
        expected = centre(read(content))
        np.testing.assert_array_equal(transform.crop(tmp_path / name).numpy(), expected, name)
        np.testing.assert_array_equal(transform.crop(Image.open(tmp_path / name)).numpy(), expected, name)
    turned = ImageOps.exif_transpose(Image.open(tmp_path / "colour6.jpg"))
    np.testing.assert_array_equal(  # one that its owner has turned is not turned again
        transform.crop(turned).numpy(), centre(upright((tmp_path / "colour6.jpg").read_bytes()))
    )


def test_row_87_a_run_says_whether_it_turns_pictures_and_so_does_what_is_exported(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    root = write_folder(tmp_path / "data", phone_pictures())
    split = make_split(
        "imagefolder", run_root=tmp_path / "runs", data_root=root, val_fraction=0.2, old_fraction=1.0
    )
    words = (
        "--run-root",
        split.run_root,
        "--recipe",
        "digits",
        "--device",
        "cpu",
        "--set",
        "data.exif=apply",
    )
    short = ("--set", "data.image_size=8", "--set", "optim.epochs=1", "--set", "optim.batch_size=4")
    planned = mptctl("train-ref", *words, *short, "--dry-run")
    assert " ".join(planned.stdout.split()).count("EXIF rotation applied, shorter side to 8 pixels") == 2
    done = mptctl("train-ref", *words, *short)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "model.safetensors"
    done = mptctl("export", "ref", *words[:2], "--format", "safetensors", "--out", out)
    assert done.returncode == 0, done.stderr
    described = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))
    assert described["preprocessing"]["exif"] == "apply"
