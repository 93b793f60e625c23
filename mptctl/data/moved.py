"""Pictures in another folder than when they were split: the same by sizes of all and pixels of some."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest, pack_paths
from mptctl.errors import DataError, some

# Pictures that are decoded where a folder is said to hold those of a split.
SAMPLE = 16


def move(manifest: Manifest, root: Path) -> Manifest:
    """The manifest of the same pictures in another folder, with their times of change there.

    Raises:
        DataError: no folder, or files that are missing or of another size there, which are named; or one of
            another height or width.
    """
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; name the one that holds the pictures")
    moved = replace(manifest, root=root)
    if not manifest.is_array:
        moved = replace(moved, mtimes=_times_of_same_sizes(moved))
        _decode_some(moved)
    return moved


def _times_of_same_sizes(manifest: Manifest) -> NDArray[np.int64]:
    """The times of change of a manifest's files or shards; DataError where one is gone or of another size."""
    times, wrong = manifest.mtimes.copy(), []
    if manifest.shards:
        path_bytes, path_offsets = pack_paths(manifest.shards)
        used, sizes = list(range(len(manifest.shards))), manifest.shard_sizes.tolist()
    else:
        path_bytes, path_offsets = manifest.path_bytes, manifest.path_offsets
        used, sizes = np.flatnonzero(manifest.parts != BAD).tolist(), manifest.sizes.tolist()
    # Not `relative_path`, which takes longer than the look at the file.
    names, offsets = path_bytes.tobytes(), path_offsets.tolist()
    folder = os.open(str(manifest.root), os.O_RDONLY)
    try:
        for row in used:
            try:
                found = os.stat(names[offsets[row] : offsets[row + 1]], dir_fd=folder)
            except OSError as error:
                wrong.append(f"{_name(names, offsets, row)}: {error.strerror}")
                continue
            if found.st_size != sizes[row]:
                wrong.append(f"{_name(names, offsets, row)}: {found.st_size} bytes, not {sizes[row]}")
            times[row] = found.st_mtime_ns
    finally:
        os.close(folder)
    if wrong:
        what = "shards" if manifest.shards else "pictures"
        raise DataError(
            f"{manifest.root}: {len(wrong):,} of {len(used):,} {what} are not those of the split "
            f"({some(wrong, separator='; ')}); name the folder that holds them, or run split on this one"
        )
    return times


def _name(names: bytes, offsets: list[int], row: int) -> str:
    return os.fsdecode(names[offsets[row] : offsets[row + 1]])


def _decode_some(manifest: Manifest) -> None:
    """Decode pictures from all over a manifest; DataError where one has become another."""
    from mptctl.data.pictures import decode_row  # which imports torch

    used = np.flatnonzero(manifest.parts != BAD)
    for row in used[np.linspace(0, len(used) - 1, min(SAMPLE, len(used))).astype(np.int64)].tolist():
        found = tuple(decode_row(manifest, row).shape[:2])
        if found != (manifest.heights[row], manifest.widths[row]):
            raise DataError(
                f"{manifest.where(row)}: {found[1]} x {found[0]} pixels, not {manifest.widths[row]} x "
                f"{manifest.heights[row]}: is another picture than the split's; run split on this folder"
            )
