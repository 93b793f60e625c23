"""Identical pictures: every planted one is found, none that differs is, and training copies can be kept out."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mptctl.data.duplicates import choose_copies, describe_identical, find_identical
from mptctl.data.manifest import TEST, TRAIN, VAL
from mptctl.data.sources import load_array, read_source
from mptctl.data.split import make_split


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12),
    st.sampled_from([0, 5000]),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_planted_duplicates_are_all_found(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, copies: list[tuple[int, int]], longer: int
) -> None:
    """Also of files longer than the piece from the middle that is compared first."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copytree(folder, root, dirs_exist_ok=True)
    files = sorted(root.rglob("*.jpg"))
    for number, file in enumerate(files):  # none is another's twin
        file.write_bytes(file.read_bytes() + f"{number:04d}".encode() + bytes(longer))
    for source, target in copies:
        files[target].write_bytes(files[source].read_bytes())
    manifest = read_source("imagefolder", root).manifest
    found = find_identical(manifest)
    contents = [manifest.read(row) for row in range(len(manifest))]
    expected: dict[bytes, set[int]] = {}
    for row, content in enumerate(contents):
        expected.setdefault(content, set()).add(row)
    sets = {frozenset(np.flatnonzero(found == number).tolist()) for number in np.unique(found[found >= 0])}
    assert sets == {frozenset(rows) for rows in expected.values() if len(rows) > 1}


def test_files_that_differ_at_their_ends_alone_are_not_identical(own_folder: Path) -> None:
    first, second = sorted((own_folder / "train" / "class0").glob("*.jpg"))[:2]
    content = first.read_bytes()
    for path, mark in ((first, b"a"), (second, b"b")):
        path.write_bytes(content + bytes(9000) + mark)
    manifest = read_source("imagefolder", own_folder).manifest
    assert (find_identical(manifest) == -1).all()


def test_pixels_are_compared_where_all_is_decoded(own_folder: Path) -> None:
    first = min((own_folder / "train" / "class0").glob("*.jpg"))
    copy = own_folder / "val" / "class1" / "copy.png"
    picture = Image.open(io.BytesIO(first.read_bytes()))
    picture.save(copy)
    manifest = read_source("imagefolder", own_folder).manifest
    assert (find_identical(manifest) == -1).all()
    found = find_identical(manifest, verify="decode")
    twins = manifest.ids(np.flatnonzero(found >= 0)).tolist()
    assert twins == [str(path.relative_to(own_folder)) for path in (first, copy)]
    said = describe_identical(found, manifest, manifest.parts, "decode")
    assert (said.sets, said.across_parts, said.across_labels, said.compared) == (1, 1, 1, "decoded pixels")


def test_an_array_is_looked_at_too() -> None:
    manifest = read_source("digits", None).manifest
    pictures = load_array(manifest, seed=0, cache_dir=Path()).copy()
    pictures[700] = pictures[3]
    found = find_identical(manifest, array=pictures)
    assert found[700] == found[3] >= 0


def test_the_copy_in_the_last_part_stays_and_contradictions_do_not_train() -> None:
    identical = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, -1])
    parts = np.array([TRAIN, TEST, TRAIN, VAL, TRAIN, TRAIN, TRAIN, TRAIN, VAL, TEST, TRAIN], dtype=np.uint8)
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
    assert np.flatnonzero(choose_copies(identical, labels, parts)).tolist() == [0, 2, 6, 7, 8]


def test_without_twins_nothing_is_said_and_the_split_is_what_it_was(folder: Path, tmp_path: Path) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder)
    assert split.file.duplicates is None
