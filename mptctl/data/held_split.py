"""The split that a run folder holds whole, and pictures that lie elsewhere than when they were split."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from mptctl.data.further_columns import columns_path
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME, parse_split_file, remove_other_manifests
from mptctl.errors import UsageError
from mptctl.files import link_or_copy


def hold_manifest(split: Split, folder: Path) -> None:
    """Put a split's manifest into a run folder: a second name of the run root's file, or a new file.

    Likewise its further columns, where it has some.

    Raises:
        StorageError: it cannot be written.
    """
    name = split.file.manifest
    try:
        link_or_copy(split.run_root / name, folder / name)
    except OSError:  # not there: of a split that a run holds, or whose pictures have moved
        split.manifest.save(folder / name)
    remove_other_manifests(folder, name)
    columns = columns_path(split.folder, split.file.manifest_fingerprint)
    if columns.is_file() and columns.parent != folder:
        link_or_copy(columns, folder / columns.name)


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
    asked = list(dict.fromkeys(folders))
    held = {folder: load_split(folder) for folder in asked if holds_split(folder)}
    if len({split.fingerprint for split in held.values()}) > 1:
        raise UsageError(
            f"{', '.join(map(str, held))}: hold different splits, and {run_root} none; name the --run-root "
            "of the split that they are to be used with"
        )
    if not held:
        refuse_no_split(run_root, asked)
    # Of runs before and after a move, one that knows where the pictures are.
    roots = {folder: split.manifest.root for folder, split in held.items()}
    here = [folder for folder, root in roots.items() if root is None or os.path.isdir(root)]
    return replace(held[(here or list(held))[0]], run_root=run_root)


def refuse_no_split(run_root: Path, folders: Iterable[Path]) -> NoReturn:
    """Raise UsageError: a run root has no split, and no run holds one.

    Args:
        run_root: where there is none.
        folders: of the runs; one of an earlier version holds a split without its manifest.
    """
    early = next((folder for folder in folders if os.path.isfile(folder / SPLIT_NAME)), None)
    or_else = ""
    if early is not None:
        or_else = (
            f", or copy split.json and manifest*.npz from the run root of {early}, which an earlier version "
            "trained"
        )
    raise UsageError(f"no {SPLIT_NAME} in {run_root}; run mptctl split SOURCE first{or_else}")


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
    return split.moved_to(root)
