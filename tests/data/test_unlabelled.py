"""Folders of pictures without labels: which files count, and which are named as bad."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mptctl.data.derived_splits import make_unlabelled_split
from mptctl.data.listing.listing import BadPictures, Checks


def test_pictures_at_any_depth_in_the_order_of_their_paths(folder: Path, tmp_path: Path) -> None:
    picture = folder / "val" / "class0" / "000.jpg"
    for name in ("b.JPG", "a/z.jpeg", "a/b/c.jpg", "a.jpg", ".hidden/x.jpg", "a/.y.jpg", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, tmp_path / name)
    split, left_out = make_unlabelled_split(tmp_path, ("cat", "dog"))
    rows = split.indices("test")
    assert split.ids(rows).tolist() == ["a.jpg", "a/b/c.jpg", "a/z.jpeg", "b.JPG"]
    assert left_out == []
    assert split.labels.tolist() == [0, 0, 0, 0]
    assert split.picture(2).shape == split.picture(0).shape
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a", "a.jpg", "b.JPG"]


def test_a_name_that_no_file_of_predictions_can_hold_is_bad(folder: Path, tmp_path: Path) -> None:
    for name in (b"good.jpg", b"bad\xff.jpg"):
        shutil.copy(folder / "val" / "class0" / "000.jpg", os.path.join(os.fsencode(tmp_path), name))
    with pytest.raises(
        BadPictures, match=r"1 of 2 pictures cannot be used: .*bad.\.jpg: its name is not UTF-8"
    ):
        make_unlabelled_split(tmp_path, ("cat",))
    split, left_out = make_unlabelled_split(tmp_path, ("cat",), Checks(on_bad="quarantine"))
    assert split.ids(split.indices("test")).tolist() == ["good.jpg"]
    assert len(left_out) == 1
    left_out[0].encode()


def test_a_file_that_cannot_be_opened_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    shutil.copy(folder / "val" / "class0" / "000.jpg", tmp_path / "here.jpg")
    with pytest.raises(BadPictures, match=r"gone\.jpg: "):
        make_unlabelled_split(tmp_path, ("cat",))
