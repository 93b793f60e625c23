"""The slices of traffic without labels, by columns of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mptctl.errors import UsageError, option
from mptctl.evaluation.labels.draw import Traffic, is_file
from mptctl.evaluation.labels.report import LISTED, Groups
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.evaluation.slices.source import Column, cross


def read_groups(traffic: Traffic, keys: Sequence[tuple[str, ...]], metadata: Path | None) -> list[Groups]:
    """Read the slices by each key, from `metadata` or the files of OLD and NEW, the first that has a column.

    Raises:
        DataError: a column is nowhere, or a file lacks samples.
        UsageError: a key has more than `LISTED` slices.
    """
    own = [Path(model.name) for model in traffic.pairing.models.values() if is_file(model)]
    files = [metadata, *own] if metadata else own
    headers = {file: side_headers(file) for file in files} if keys else {}
    total = len(traffic.pairing)
    found = []
    for key in keys:
        columns = []
        for column in key:
            holding = [file for file, names in headers.items() if column in names]
            if not holding:
                raise no_such_column(option("by"), headers, column)
            ((codes, values),) = SideTable(holding[0], [column]).values_of(traffic.pairing.relation, total)
            columns.append(Column(codes, values))
        code, groups = cross(columns, np.arange(total))
        if len(groups) > LISTED:
            raise UsageError(
                f"{option('by')} {','.join(key)}: more than {LISTED:,} different values; choose columns "
                "of fewer"
            )
        found.append(Groups(code, [dict(zip(key, values, strict=True)) for values in groups]))
    return found
