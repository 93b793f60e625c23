"""The split that a run folder holds whole, and pictures that lie elsewhere than when they were split."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME, manifest_name, parse_split_file, remove_other_manifests
from mptctl.errors import DataError, UsageError, some
from mptctl.files import link_or_copy

# Pictures that are decoded where a folder is said to hold those of a split.
SAMPLE = 16


def hold_manifest(split: Split, folder: Path) -> None:
    """Put a split's manifest into a run folder: a second name of the run root's file, or a new file.

    Raises:
        StorageError: it cannot be written.
    """
    name = split.file.manifest
    try:
        link_or_copy(split.run_root / name, folder / name)
    except OSError:  # not there: of a split that a run holds, or whose pictures have moved
        split.manifest.save(folder / name)
    remove_other_manifests(folder, name)


def holds_split(folder: Path) -> bool:
    """Tell whether a run folder holds its split with the manifest, which earlier versions left out.

    Raises:
        DataError: its ``split.json`` is damaged.
    """
    file = folder / SPLIT_NAME
    return (
        os.path.isfile(file)
        and os.path.isfile(folder / "environment.json")
        and os.path.isfile(folder / parse_split_file(file.read_bytes(), file).manifest)
    )


def find_split(run_root: Path, folders: Iterable[Path]) -> Split:
    """The split of a run root; where it has none, the one that run folders hold.

    Args:
        run_root: where decoded pictures are kept.
        folders: of the runs that are used; a folder that holds no split counts for nothing.

    Raises:
        UsageError: there is none, or they hold different ones. DataError: it is damaged.
    """
    if os.path.exists(run_root / SPLIT_NAME):
        return load_split(run_root)
    held = {folder: load_split(folder) for folder in dict.fromkeys(folders) if holds_split(folder)}
    if len({split.fingerprint for split in held.values()}) > 1:
        raise UsageError(
            f"{', '.join(map(str, held))}: hold different splits, and {run_root} none; name the --run-root "
            "of the split that they are to be used with"
        )
    if not held:
        return load_split(run_root)
    # Of runs before and after a move, one that knows where the pictures are.
    roots = {folder: split.manifest.root for folder, split in held.items()}
    here = [folder for folder, root in roots.items() if root is None or os.path.isdir(root)]
    return replace(held[(here or list(held))[0]], run_root=run_root)


def relocate(split: Split, data_root: Path | None) -> Split:
    """The split with its pictures in another folder, once sizes of all and pixels of some are looked at.

    Args:
        split: stays as it is.
        data_root: where the pictures are now; None: where they were.

    Raises:
        UsageError: the source is embedded.
        DataError: no folder, or files that are missing or of another size there, which are named.
    """
    if data_root is None:
        return split
    root = data_root.expanduser().resolve()
    if split.manifest.root is None:
        raise UsageError(f"--data-root {data_root}: {split.file.source} lie in no folder; leave it out")
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; name the one that holds the pictures of {split.run_root}")
    manifest = replace(split.manifest, root=root)
    if not manifest.is_array:
        manifest = replace(manifest, mtimes=_times_of_same_sizes(manifest))
        _decode_some(manifest)
    request = split.file.request.model_copy(update={"data_root": str(root)})
    file = split.file.model_copy(update={"request": request, "manifest": manifest_name(manifest)})
    return replace(split, file=file, manifest=manifest)


def _times_of_same_sizes(manifest: Manifest) -> NDArray[np.int64]:
    """The times of change of a manifest's files; DataError where one is gone or has another size."""
    times, wrong = manifest.mtimes.copy(), []
    used = np.flatnonzero(manifest.parts != BAD).tolist()
    # Not `relative_path`, which takes longer than the look at the file.
    names, offsets, sizes = (
        manifest.path_bytes.tobytes(),
        manifest.path_offsets.tolist(),
        manifest.sizes.tolist(),
    )
    folder = os.open(str(manifest.root), os.O_RDONLY)
    try:
        for row in used:
            try:
                found = os.stat(names[offsets[row] : offsets[row + 1]], dir_fd=folder)
            except OSError as error:
                wrong.append(f"{manifest.relative_path(row)}: {error.strerror}")
                continue
            if found.st_size != sizes[row]:
                wrong.append(f"{manifest.relative_path(row)}: {found.st_size} bytes, not {sizes[row]}")
            times[row] = found.st_mtime_ns
    finally:
        os.close(folder)
    if wrong:
        raise DataError(
            f"{manifest.root}: {len(wrong):,} of {len(used):,} pictures are not those of the split "
            f"({some(wrong, separator='; ')}); name the folder that holds them, or run split on this one"
        )
    return times


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
