"""Reads the group of each picture, such as a patient or a video, from a column of groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest
from mptctl.errors import DataError, some
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.evaluation.reading.workspace import current, workspace


def find_groups(
    manifest: Manifest, column: str | None, metadata: Path | None, further: pa.Table | None
) -> NDArray[np.str_] | None:
    """Find the group of each picture in a file, or else in a further column of the source.

    Args:
        manifest: the M pictures.
        column: name of the column of groups; None: there are no groups.
        metadata: file with the column; None: the column is in ``further``.
        further: further columns of the source, M rows; None without any.

    Returns:
        (M,) names of groups, "" for an empty cell; None without groups.

    Raises:
        DataError: see `read_groups`.
    """
    if column is None:
        return None
    if metadata is not None:
        return read_groups(metadata, column, manifest)
    cells = [] if further is None else further[column].to_pylist()
    return np.array(["" if cell is None else str(cell) for cell in cells])


def read_groups(path: Path, column: str, manifest: Manifest) -> NDArray[np.str_]:
    """Read the group of each picture from a file.

    Args:
        path: a file in any form of predictions, with the pictures' ids in a column ``id``.
        column: name of the column of groups.
        manifest: the M pictures.

    Returns:
        (M,) names of groups; "" for an empty cell, and for a picture that is kept out.

    Raises:
        DataError: the file cannot be read, has no such column, has an id twice, or lacks a picture.
    """
    with workspace():
        headers = side_headers(path)
        if column not in headers:
            raise no_such_column("--group", {path: headers}, column)
        side = SideTable(path, [column])
        group_of = dict(current().fetch(f"SELECT id, s0 FROM {side.relation}"))
    used = np.flatnonzero(manifest.parts != BAD)
    names = manifest.ids(used).tolist()
    if missing := [name for name in names if name not in group_of]:
        raise DataError(
            f"{path}: lacks {len(missing):,} of {len(names):,} pictures ({some(missing)}); write a row for "
            "each, with its path below the data root as its id"
        )
    groups = np.full(len(manifest), "", dtype=object)
    groups[used] = [group_of[name] for name in names]
    return groups.astype(np.str_)
