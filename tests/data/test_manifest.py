"""The manifest: ids, fingerprint, and a file that holds all of it."""

from __future__ import annotations

import io
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.manifest import STANDARD, TEST, TRAIN, Manifest, load_manifest, pack_paths
from mptctl.errors import DataError

NOTHING = np.empty(0, dtype=np.int64)


def files_manifest(paths: list[str], labels: list[int], classes: int) -> Manifest:
    count = len(paths)
    path_bytes, path_offsets = pack_paths(paths)
    return Manifest(
        source="imagefolder",
        root=Path("data"),
        class_names=tuple(f"c{i}" for i in range(classes)),
        labels=np.array(labels, dtype=np.int32),
        parts=np.where([path.startswith("val") for path in paths], TEST, TRAIN).astype(np.uint8),
        heights=np.full(count, 64, dtype=np.int32),
        widths=np.full(count, 48, dtype=np.int32),
        kinds=np.full(count, STANDARD, dtype=np.uint8),
        path_bytes=path_bytes,
        path_offsets=path_offsets,
        sizes=np.full(count, 999, dtype=np.int64),
        mtimes=np.zeros(count, dtype=np.int64),
    )


def with_ids(manifest: Manifest, ids: list[str]) -> Manifest:
    id_bytes, id_offsets = pack_paths(ids)
    return replace(manifest, id_bytes=id_bytes, id_offsets=id_offsets)


def test_ids_are_paths_below_the_root_whatever_their_letters() -> None:
    paths = ["train/c0/a.jpg", "train/c1/großer Hund 犬.jpg", "val/c0/b.jpg"]
    manifest = files_manifest(paths, [0, 1, 0], 2)
    assert manifest.ids(np.array([0, 1, 2])).tolist() == paths
    assert manifest.file(2) == "data/val/c0/b.jpg"


def test_ids_of_arrays_count_within_the_sources_own_parts() -> None:
    manifest = replace(
        files_manifest(["a", "b", "val1", "val2"], [0, 0, 0, 0], 1),
        path_bytes=NOTHING.astype(np.uint8), path_offsets=NOTHING, sizes=NOTHING, mtimes=NOTHING,
    )  # fmt: skip
    assert manifest.ids(np.array([1, 2, 3])).tolist() == ["train/00001", "test/00000", "test/00001"]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    manifest = files_manifest(["train/c0/a.jpg", "val/c1/b.jpg"], [0, 1], 2)
    manifest.save(tmp_path / "manifest.npz")
    again = load_manifest(tmp_path / "manifest.npz", Path("elsewhere"))
    assert again.fingerprint == manifest.fingerprint
    assert again.class_names == manifest.class_names
    assert again.file(1) == "elsewhere/val/c1/b.jpg"
    np.testing.assert_array_equal(again.widths, manifest.widths)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.npz"]


@pytest.mark.parametrize(
    "change", ["label", "part", "path", "size", "class name", "kind", "id", "content", "source"]
)
def test_the_fingerprint_changes_with_what_the_rows_say(change: str) -> None:
    manifest = with_ids(files_manifest(["train/c0/a.jpg", "train/c1/b.jpg"], [0, 1], 2), ["s1", "s2"])
    other = {
        "label": replace(manifest, labels=np.array([1, 1], dtype=np.int32)),
        "part": replace(manifest, parts=np.array([TRAIN, TEST], dtype=np.uint8)),
        "path": with_ids(files_manifest(["train/c0/a.jpg", "train/c1/d.jpg"], [0, 1], 2), ["s1", "s2"]),
        "size": replace(manifest, sizes=np.array([999, 998])),
        "class name": replace(manifest, class_names=("c0", "x")),
        "kind": replace(manifest, kinds=np.array([STANDARD, STANDARD + 1], dtype=np.uint8)),
        "id": with_ids(manifest, ["s1", "s3"]),
        "content": replace(manifest, content="another digest"),
        "source": replace(manifest, source="table"),
    }[change]
    assert other.fingerprint != manifest.fingerprint


def test_the_fingerprint_does_not_change_with_the_place_or_the_time_of_a_copy() -> None:
    manifest = files_manifest(["train/c0/a.jpg"], [0], 1)
    moved = replace(manifest, root=Path("elsewhere"), mtimes=np.array([12345]))
    assert moved.fingerprint == manifest.fingerprint


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "text", "bit", "bzip2"])
def test_a_damaged_file_is_a_data_error_that_says_what_to_do(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "manifest.npz"
    files_manifest(["train/c0/a.jpg"] * 50, [0] * 50, 1).save(path)
    if damage == "missing":
        path.unlink()
    else:
        whole = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        again = io.BytesIO()
        with zipfile.ZipFile(again, "w", zipfile.ZIP_BZIP2) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        damaged = {"empty": b"", "cut": whole[:300], "text": b"hello", "bzip2": again.getvalue()}
        damaged["bit"] = whole.replace(b"train/c0/a.jpg" * 2, b"train/c0/b.jpg" * 2, 1)
        assert damaged["bit"] != whole
        path.write_bytes(damaged[damage])
    with pytest.raises(DataError, match=r"manifest\.npz.*run mptctl split again"):
        load_manifest(path, None)


def test_columns_that_are_no_integers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.npz"
    manifest = files_manifest(["train/c0/a.jpg"], [0], 1)
    replace(manifest, heights=np.array([1], dtype="M8[s]")).save(path)  # type: ignore[arg-type]
    with pytest.raises(
        DataError, match=r"manifest\.npz: its heights are no integers; run mptctl split again"
    ):
        load_manifest(path, None)


def test_as_many_pictures_as_imagenet_load_and_select_in_under_a_second_of_work(tmp_path: Path) -> None:
    count, classes = 1_281_167, 1000
    labels = np.sort(np.random.default_rng(0).integers(0, classes, count))
    offsets = np.arange(count + 1, dtype=np.int64) * 38
    small = files_manifest(["a"], [0], classes)
    Manifest(
        source="imagefolder", root=None, class_names=small.class_names, labels=labels.astype(np.int32),
        parts=np.zeros(count, np.uint8), heights=np.full(count, 375, np.int32), widths=np.full(count, 500, np.int32),
        kinds=np.zeros(count, np.uint8), path_bytes=np.full(38 * count, 97, np.uint8), path_offsets=offsets,
        sizes=np.full(count, 110_000), mtimes=np.full(count, 1_700_000_000_000_000_000),
    ).save(tmp_path / "manifest.npz")  # fmt: skip
    begin = time.process_time()  # not the clock on the wall: other programs may be running
    manifest = load_manifest(tmp_path / "manifest.npz", None)
    assert len(manifest.fingerprint) == 32
    chosen = np.flatnonzero((manifest.parts == TRAIN) & (manifest.labels < 500))
    spent = time.process_time() - begin
    assert len(chosen) == np.count_nonzero(labels < 500)
    assert spent < 1.0
