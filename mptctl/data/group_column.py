"""The group of each picture, such as a patient or a video, from a column of a file beside the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, Manifest
from mptctl.errors import DataError, some
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.evaluation.reading.workspace import current, workspace


def as_groups(cells: Sequence[object]) -> NDArray[np.str_]:
    """(n,) names of groups of a column; "" for an empty cell."""
    return np.array(["" if cell is None else str(cell) for cell in cells])


def read_groups(path: Path, column: str, manifest: Manifest) -> NDArray[np.str_]:
    """(M,) names of groups; "" for a picture whose cell is empty, and for one that is kept out.

    Args:
        path: a file of any form that predictions have, with the pictures' ids in a column `id`.
        column: of the groups.
        manifest: of the pictures.

    Raises:
        DataError: it cannot be read, has no such column, an id twice, or no row for a picture.
    """
    # Here, because they import DuckDB.
    with workspace():
        if column not in (headers := side_headers(path)):
            raise no_such_column("--group", {path: headers}, column)
        side = SideTable(path, [column])
        group_of = dict(current().fetch(f"SELECT id, s0 FROM {side.relation}"))
    used = np.flatnonzero(manifest.parts != BAD)
    names = manifest.ids(used).tolist()
    if lacking := [name for name in names if name not in group_of]:
        raise DataError(
            f"{path}: lacks {len(lacking):,} of {len(names):,} pictures ({some(lacking)}); write a row for "
            "each, with its path below the data root as its id"
        )
    groups = np.full(len(manifest), "", dtype=object)
    groups[used] = [group_of[name] for name in names]
    return groups.astype(np.str_)
