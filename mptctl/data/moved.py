"""Checks that the pictures of a split lie in another folder, by the sizes of all files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest
from mptctl.errors import DataError, some


def move_manifest(manifest: Manifest, root: Path) -> Manifest:
    """Return the manifest of the same pictures in another folder, with their times of change there.

    Raises:
        DataError: there is no folder, or files are missing or have another size.
    """
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; name the one that holds the pictures")
    moved = replace(manifest, root=root)
    if manifest.paths is None:
        return moved
    return replace(moved, mtimes=_read_times(moved, manifest.shards or manifest.paths.to_pylist()))


def _read_times(manifest: Manifest, names: tuple[str, ...] | list[str]) -> NDArray[np.int64]:
    """Return the times of change of files or shards; DataError if one is gone or has another size."""
    sizes = manifest.shard_sizes if manifest.shards else manifest.sizes
    used = range(len(names)) if manifest.shards else np.flatnonzero(manifest.parts != BAD).tolist()
    times = manifest.mtimes.copy()
    wrong = []
    folder = os.open(str(manifest.root), os.O_RDONLY)
    try:
        for row in used:
            try:
                stat = os.stat(names[row], dir_fd=folder)
            except OSError as error:
                wrong.append(f"{names[row]}: {error.strerror}")
                continue
            if stat.st_size != sizes[row]:
                wrong.append(f"{names[row]}: {stat.st_size} bytes, not {sizes[row]}")
            times[row] = stat.st_mtime_ns
    finally:
        os.close(folder)
    if wrong:
        what = "shards" if manifest.shards else "pictures"
        raise DataError(
            f"{manifest.root}: {len(wrong):,} of {len(used):,} {what} are not those of the split "
            f"({some(wrong, separator='; ')}); name the folder that holds them, or run split on this one"
        )
    return times
