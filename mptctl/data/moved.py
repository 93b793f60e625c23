"""Checks that the pictures of a split lie in another folder: compares all sizes, and decodes some."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest
from mptctl.errors import DataError, some

# Pictures that are decoded to check the folder.
SAMPLE = 16


def move_manifest(manifest: Manifest, root: Path) -> Manifest:
    """Return the manifest of the same pictures in another folder, with their times of change there.

    Raises:
        DataError: there is no folder, files are missing or have another size, or a decoded picture has
            another height or width.
    """
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; name the one that holds the pictures")
    moved = replace(manifest, root=root)
    if manifest.paths is not None:
        moved = replace(moved, mtimes=_read_times(moved, manifest.shards or manifest.paths.to_pylist()))
        _decode_some(moved)
    return moved


def _read_times(manifest: Manifest, names: tuple[str, ...] | list[str]) -> NDArray[np.int64]:
    """Return the times of change of files or shards; DataError if one is gone or has another size."""
    times, wrong = manifest.mtimes.copy(), []
    used, sizes = np.flatnonzero(manifest.parts != BAD).tolist(), manifest.sizes.tolist()
    if manifest.shards:
        used, sizes = list(range(len(names))), manifest.shard_sizes.tolist()
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


def _decode_some(manifest: Manifest) -> None:
    """Decode up to `SAMPLE` pictures of a manifest; DataError if one has another height or width."""
    from mptctl.data.pictures import decode_row  # which imports torch

    used = np.flatnonzero(manifest.parts != BAD)
    evenly_spaced = np.linspace(0, len(used) - 1, min(SAMPLE, len(used))).astype(np.int64)
    for row in used[evenly_spaced].tolist():
        height, width, _ = decode_row(manifest, row).shape
        if (height, width) != (manifest.heights[row], manifest.widths[row]):
            raise DataError(
                f"{manifest.where(row)}: {width} x {height} pixels, not {manifest.widths[row]} x "
                f"{manifest.heights[row]}: is another picture than the split's; run split on this folder"
            )
