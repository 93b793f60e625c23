"""The size of a source: the same as its manifest says, without a picture being read."""

from __future__ import annotations

from pathlib import Path

from mptctl.data.manifest import TEST, TRAIN
from mptctl.data.sources import count_source, read_source
from tests.common import make_folder


def test_digits_are_counted_as_their_manifest_has_them() -> None:
    manifest = read_source("digits", None).manifest
    parts = manifest.parts.tolist()
    assert count_source("digits", None) == (10, parts.count(TRAIN), parts.count(TEST))


def test_a_folder_is_counted_by_its_names_alone(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "pictures", classes=3, train=5, val=2, size=8)
    for path in root.rglob("*.jpg"):
        path.write_bytes(b"garbage")
    (root / "train" / "class0" / "notes.txt").write_text("not a picture")
    assert count_source("imagefolder", root) == (3, 15, 6)
