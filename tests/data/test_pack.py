"""A packed copy: the same ids, classes and parts as its source, and pixels that every loader reads the same."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from mptctl.data.listing.listing import BadPictures
from mptctl.data.packing.pack import pack_pictures
from mptctl.data.packing.records import Packed, PackReport, PackRequest, read_packed_files
from mptctl.data.pictures import resize_and_crop
from mptctl.data.split import Split, make_split
from mptctl.errors import DataError, UsageError
from mptctl.names import PackForm
from tests.common import smooth_picture
from tests.faults.test_pictures import odd_pictures, pillow


def pack_folder(
    folder: Path, out: Path, short_side: int | None = None, to: PackForm = "folder"
) -> PackReport:
    """Pack a source of any kind."""
    request = PackRequest(source=str(folder.resolve()), kind="", to=to, short_side=short_side)
    return pack_pictures(request, out)


def split_of(folder: Path, runs: Path) -> Split:
    return make_split(
        "imagefolder", run_root=runs, data_root=folder, val_fraction=0.3, order="random", seed=4
    )


def whole(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def assert_nearly_same(one: np.ndarray, other: np.ndarray) -> None:
    """But for what JPEG at quality 95 leaves of small (H, W, 3) pictures: grey is nearly kept, colour is blurred."""
    difference = one.astype(float) - other
    grey = np.abs(difference @ (0.299, 0.587, 0.114))
    assert grey.mean() < 2
    assert grey.max() < 12
    assert np.abs(difference).mean() < 12


def test_a_copy_has_the_ids_classes_and_parts_of_its_source(folder: Path, tmp_path: Path) -> None:
    report = pack_folder(folder, tmp_path / "small", 50)
    assert (report.pictures, report.resized + report.copied, report.rewritten) == (56, 56, 0)
    assert report.resized > 0 < report.copied
    was, now = split_of(folder, tmp_path / "one"), split_of(tmp_path / "small", tmp_path / "other")
    assert now.classes == was.classes
    assert (now.labels == was.labels).all()
    assert (now.manifest.parts == was.manifest.parts).all()
    rows = np.arange(len(was.manifest))
    assert now.ids(rows).tolist() == was.ids(rows).tolist()
    shorter = np.minimum(was.manifest.heights, was.manifest.widths)
    assert (np.minimum(now.manifest.heights, now.manifest.widths) == np.minimum(shorter, 50)).all()


def test_pictures_are_made_smaller_once_and_small_ones_stay_byte_for_byte(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    report = pack_folder(folder, out, 50)
    for file in read_packed_files(out).values():
        before, after = folder / file.path, out / file.path
        assert (file.source_bytes, file.packed_bytes) == (before.stat().st_size, after.stat().st_size)
        assert file.source_mtime == before.stat().st_mtime_ns
        (width, height), new = (
            Image.open(io.BytesIO(before.read_bytes())).size,
            Image.open(io.BytesIO(after.read_bytes())),
        )
        assert (file.how == "copied") == (min(width, height) <= 50)
        if file.how == "copied":
            assert after.read_bytes() == before.read_bytes()
            continue
        assert new.size == (int(max(50, 50 * width / height)), int(max(50, 50 * height / width)))
        assert [part[1:3] for part in new.layer] == [(2, 2), (1, 1), (1, 1)]  # type: ignore[attr-defined]
        assert new.getexif() == {}
    assert report.packed_bytes == sum(file.packed_bytes for file in read_packed_files(out).values())
    packed = Packed.model_validate_json((out / "pack.json").read_text())
    assert packed.complete
    assert packed == Packed(**{key: getattr(report, key) for key in Packed.model_fields})
    assert (packed.request.source, packed.request.short_side) == (str(folder), 50)


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("short_side", [32, 16])
def test_odd_pictures_are_packed_as_pillow_reads_them(tmp_path: Path, short_side: int) -> None:
    paths = odd_pictures(tmp_path / "data" / "train" / "one")
    pack_folder(tmp_path / "data", tmp_path / "small", short_side)
    done = read_packed_files(tmp_path / "small")
    for name, path in paths.items():
        copy = tmp_path / "small" / "train" / "one" / path.name
        expected, content = pillow(path), copy.read_bytes()
        is_png = path.read_bytes().startswith(b"\x89PNG")
        assert content.startswith(b"\x89PNG" if is_png else b"\xff\xd8")
        if short_side == 16:
            image = torch.from_numpy(expected.copy())
            expected = resize_and_crop(image, 16, 16).numpy()
            assert dict(Image.open(io.BytesIO(content)).getexif()) == (
                {0x0112: 6} if name == "rotated" else {}
            )
        odd = name in ("cmyk", "stored as rgb", "palette", "one bit") or "transparent" in name
        how = done[f"train/one/{path.name}"].how
        assert how == ("resized" if short_side == 16 else "rewritten" if odd else "copied"), name
        if is_png or how == "copied":
            assert np.array_equal(expected, pillow(copy)), name
        else:
            assert_nearly_same(expected, pillow(copy))


def test_a_second_call_does_only_what_is_missing_or_changed(own_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    pack_folder(own_folder, out, 50)
    first = whole(out)
    assert pack_folder(own_folder, out, 50).found == 56
    assert whole(out) == first
    names = sorted(path.relative_to(own_folder).as_posix() for path in own_folder.glob("train/class0/*"))
    (out / names[0]).unlink()
    (out / names[1]).write_bytes(b"")
    smooth_picture(90, 80, 1000).save(own_folder / names[2], quality=90)
    (own_folder / names[3]).unlink()
    smooth_picture(90, 80, 1001).save(own_folder / "train/class0/more.jpg", quality=90)
    shutil.rmtree(own_folder / "val" / "class3")
    report = pack_folder(own_folder, out, 50)
    assert (report.pictures, report.found) == (56 - 4, 56 - 4 - 4)
    fresh = tmp_path / "fresh"
    pack_folder(own_folder, fresh, 50)
    assert whole(out) == whole(fresh)
    assert not (out / "val" / "class3").exists()


def test_a_line_that_a_kill_cut_short_does_not_count(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    pack_folder(folder, out, 50)
    first = whole(out)
    lines = out / "pack-files.jsonl"
    lines.write_bytes(lines.read_bytes()[:-30] + b"\n17\nno line\n[1, 2]")
    assert pack_folder(folder, out, 50).found == 55
    assert whole(out) == first


def test_all_bad_pictures_are_counted_and_the_others_packed(own_folder: Path, tmp_path: Path) -> None:
    bad = sorted((own_folder / "train" / "class1").glob("*"))[:3]
    bad[0].write_bytes(bad[0].read_bytes()[:300])
    bad[1].write_text("no picture")
    Image.effect_noise((20, 20), 50).save(bad[2], "PNG")
    content = bad[2].read_bytes()
    bad[2].write_bytes(content[:60] + bytes(60) + content[120:])  # its header and its end are sound
    with pytest.raises(BadPictures, match=r"3 of 56 pictures cannot be used: .*give the same command") as end:
        pack_folder(own_folder, tmp_path / "small", 50)
    assert [problem.split(": ")[0] for problem in end.value.problems] == list(map(str, bad))
    packed = Packed.model_validate_json((tmp_path / "small" / "pack.json").read_text())
    assert (packed.complete, packed.pictures) == (False, 53)
    for path in bad:
        smooth_picture(60, 70, 5).save(path, "JPEG")
    assert pack_folder(own_folder, tmp_path / "small", 50).found == 53


def test_another_source_or_a_foreign_file_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    pack_folder(folder, out, 50)
    before = whole(out)
    with pytest.raises(UsageError, match="short_side: 50 -> 40"):
        pack_folder(folder, out, 40)
    with pytest.raises(UsageError, match=r"source: .* -> .*again"):
        pack_folder(shutil.copytree(folder, tmp_path / "again"), out, 50)
    assert whole(out) == before
    smooth_picture(9, 9, 1).save(out / "train" / "class0" / "foreign.png")
    with pytest.raises(UsageError, match=r"train/class0/foreign.png"):
        pack_folder(folder, out, 50)
    (out / "pack.json").write_text("{}")
    with pytest.raises(DataError, match=r"pack.json"):
        pack_folder(folder, out, 50)


def test_one_folder_in_the_other_is_refused_also_through_links(own_folder: Path, tmp_path: Path) -> None:
    before = whole(own_folder)
    os.symlink(own_folder, tmp_path / "link")
    with pytest.raises(UsageError, match="lies in the other"):
        pack_folder(own_folder, tmp_path / "link" / "small", 50)
    out = tmp_path / "small"
    pack_folder(own_folder, out, 50)
    shutil.rmtree(out / "train")
    os.symlink(own_folder / "train", out / "train")
    with pytest.raises(UsageError, match="is a link"):
        pack_folder(own_folder, out, 50)
    assert whole(own_folder) == before


def test_a_folder_without_parts_or_with_other_names_of_them_keeps_its_paths(
    own_folder: Path, tmp_path: Path
) -> None:
    (own_folder / "val").rename(own_folder / "validation")
    for source in (own_folder, own_folder / "train"):
        out = tmp_path / f"out of {source.name}"
        pack_folder(source, out)
        pictures = {path: content for path, content in whole(out).items() if path.endswith(".jpg")}
        assert pictures == whole(source)
        assert {path.name for path in out.iterdir() if path.is_dir()} == {p.name for p in source.iterdir()}
    smooth_picture(9, 9, 1).save(tmp_path / f"out of {own_folder.name}" / "validation/class0/foreign.png")
    with pytest.raises(UsageError, match=r"validation/class0/foreign\.png"):
        pack_folder(own_folder, tmp_path / f"out of {own_folder.name}")


def test_pictures_that_would_get_one_name_are_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    smooth_picture(60, 50, 1).save(content, "JPEG")
    rows = {"id": ["a", "a.jpg", "b"], "label": ["x"] * 3, "image": [content.getvalue()] * 3}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    with pytest.raises(BadPictures, match=r"2 of 3 .* x/a is not its name alone"):
        pack_folder(tmp_path / "t.parquet", tmp_path / "out")
    pq.write_table(pa.table({**rows, "id": ["a.png", "a.jpg", "b"]}), tmp_path / "t.parquet")
    assert pack_folder(tmp_path / "t.parquet", tmp_path / "out").pictures == 3


def test_a_picture_that_is_encoded_anew_gets_the_suffix_of_its_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "train" / "one"
    folder.mkdir(parents=True)
    for seed, name in enumerate(("a.webp", "b.bmp", "c.gif", "d.jpg")):
        smooth_picture(90, 80, seed).save(folder / name)
    pack_folder(tmp_path / "photos", tmp_path / "same")
    assert {path.name for path in tmp_path.glob("same/train/one/*")} == {
        path.name for path in folder.iterdir()
    }
    for _ in range(2):
        pack_folder(tmp_path / "photos", tmp_path / "small", 40)
        names = {path.name for path in tmp_path.glob("small/train/one/*")}
        assert names == {"a.jpg", "b.png", "c.png", "d.jpg"}
    smooth_picture(90, 80, 9).save(folder / "a.jpg")
    with pytest.raises(BadPictures, match=r"a\.jpg is not its name alone"):
        pack_folder(tmp_path / "photos", tmp_path / "other", 40)
