"""Keeps a split with its manifest in a run folder, and finds it where the run root has none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mptctl.data.further_columns import columns_path
from mptctl.data.moved import move_manifest
from mptctl.data.split import Split, load_split, write_table
from mptctl.data.split_file import SPLIT_NAME, parse_split_file, remove_other_tables, with_table
from mptctl.errors import UsageError
from mptctl.files import link_or_copy


def hold_manifest(split: Split, folder: Path) -> None:
    """Put a split's table and further columns into a run folder, and remove other tables there.

    The files are links to those of the run root where possible, else copies.

    Raises:
        StorageError: the folder cannot be written.
    """
    name = split.file.table
    try:
        link_or_copy(split.run_root / name, folder / name)
    except OSError:  # the run root lacks it: the split is one of a run, or its pictures have moved
        write_table(split, folder)
    remove_other_tables(folder, name)
    columns = columns_path(split.folder, split.file.manifest_fingerprint)
    if columns.is_file() and columns.parent != folder:
        link_or_copy(columns, folder / columns.name)


def holds_split(folder: Path) -> bool:
    """Tell whether a run folder holds ``split.json`` and its table.

    Raises:
        DataError: ``split.json`` is damaged.
    """
    file = folder / SPLIT_NAME
    return (
        os.path.isfile(file)
        and os.path.isfile(folder / "environment.json")
        and os.path.isfile(folder / parse_split_file(file.read_bytes(), file).table)
    )


def find_split(run_root: Path, folders: Iterable[Path]) -> Split:
    """Read the split of a run root; if it has none, the split that run folders hold.

    Of several run folders, one whose data root exists is preferred.

    Args:
        run_root: the run root, which the returned split gets.
        folders: folders of the runs that are used; those without a split do not count.

    Raises:
        UsageError: there is no split, or the runs hold different ones.
        DataError: a split is damaged.
    """
    if os.path.exists(run_root / SPLIT_NAME):
        return load_split(run_root)
    distinct = list(dict.fromkeys(folders))
    held = {folder: load_split(folder) for folder in distinct if holds_split(folder)}
    if len({split.fingerprint for split in held.values()}) > 1:
        raise UsageError(
            f"{', '.join(map(str, held))}: hold different splits, and {run_root} none; name the --run-root "
            "of the split that they are to be used with"
        )
    if not held:
        raise UsageError(f"no {SPLIT_NAME} in {run_root}; run mptctl split SOURCE first")
    splits = list(held.values())
    with_data = [
        split for split in splits if split.manifest.root is None or os.path.isdir(split.manifest.root)
    ]
    return replace((with_data or splits)[0], run_root=run_root)


def relocate(split: Split, data_root: Path | None) -> Split:
    """Return the split with its pictures in another folder, unwritten, after a check that they lie there.

    Args:
        split: the split; stays as it is.
        data_root: the folder of the pictures now; None: the split is returned as it is.

    Raises:
        UsageError: the source is embedded.
        DataError: the folder does not hold the pictures of the split; see `move_manifest`.
    """
    if data_root is None:
        return split
    root = data_root.expanduser().resolve()
    if split.manifest.root is None:
        raise UsageError(f"--data-root {data_root}: {split.file.source} lie in no folder; leave it out")
    manifest = move_manifest(split.manifest, root)
    request = split.file.request.model_copy(update={"data_root": str(root)})
    file = with_table(split.file.model_copy(update={"request": request}), manifest)
    return replace(split, file=file, manifest=manifest)
