"""The manifest: ids, fingerprint, and a table that holds all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mptctl.data.manifest import STANDARD, TEST, TEXT, TRAIN, Manifest, parse_manifest


def files_manifest(paths: list[str], labels: list[int], classes: int, **changes: Any) -> Manifest:
    count = len(paths)
    given = {
        "source": "imagefolder",
        "root": Path("data"),
        "class_names": tuple(f"c{i}" for i in range(classes)),
        "labels": np.array(labels, dtype=np.int32),
        "parts": np.where([path.startswith("val") for path in paths], TEST, TRAIN).astype(np.uint8),
        "heights": np.full(count, 64, dtype=np.int32),
        "widths": np.full(count, 48, dtype=np.int32),
        "kinds": np.full(count, STANDARD, dtype=np.uint8),
        "paths": pa.array(paths, TEXT),
        "sizes": np.full(count, 999, dtype=np.int64),
        "mtimes": np.zeros(count, dtype=np.int64),
    }
    return Manifest(**given | changes)


def test_what_is_written_is_read_back() -> None:
    manifest = files_manifest(["train/c0/großer Hund 犬.jpg", "val/c1/b.jpg"], [0, 1], 2)
    sharded = replace(
        manifest, shards=("0.tar",), shard_sizes=np.array([7]), mtimes=np.array([5]),
        shard_rows=np.zeros(2, np.int32), starts=np.array([512, 1024]), own_ids=pa.array(["x", "y"], TEXT),
    )  # fmt: skip
    for written in (manifest, sharded):
        again, about = parse_manifest(written.serialise({"a": 1}), Path("elsewhere"))
        assert (about, again.class_names, again.shards) == ({"a": 1}, written.class_names, written.shards)
        columns = "labels parts heights widths kinds sizes mtimes starts shard_sizes"
        for name in columns.split():
            np.testing.assert_array_equal(getattr(again, name), getattr(written, name))
        assert again.ids(np.arange(2)).tolist() == (written.own_ids or written.paths).to_pylist()
        # What was written is what would be computed again.
        assert replace(again).fingerprint == again.fingerprint == written.fingerprint
        assert replace(again).digest == again.digest == written.digest
    assert again.file(1) == "elsewhere/0.tar"


CHANGES: dict[str, Callable[[Manifest], dict[str, Any]]] = {
    "label": lambda _: {"labels": np.array([1, 1], dtype=np.int32)},
    "part": lambda _: {"parts": np.array([TRAIN, TEST], dtype=np.uint8)},
    "path": lambda _: {"paths": pa.array(["train/c0/a.jpg", "train/c1/d.jpg"], TEXT)},
    "bound": lambda _: {"paths": pa.array(["train/c0/a.jpgt", "rain/c1/b.jpg"], TEXT)},
    "size": lambda _: {"sizes": np.array([999, 998])},
    "class name": lambda _: {"class_names": ("c0", "x")},
    "kind": lambda _: {"kinds": np.array([STANDARD, STANDARD + 1], dtype=np.uint8)},
    "id": lambda _: {"own_ids": pa.array(["s1", "s3"], TEXT)},
    "content": lambda _: {"content": "another digest"},
    "source": lambda _: {"source": "table"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_changes_with_what_the_rows_say(change: str) -> None:
    ids = pa.array(["s1", "s2"], TEXT)
    manifest = files_manifest(["train/c0/a.jpg", "train/c1/b.jpg"], [0, 1], 2, own_ids=ids)
    assert replace(manifest, **CHANGES[change](manifest)).fingerprint != manifest.fingerprint
    moved = replace(manifest, root=Path("elsewhere"), mtimes=np.array([12345, 1]))
    assert moved.fingerprint == manifest.fingerprint  # which the place and the time of a copy leave as it is
