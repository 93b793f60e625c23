"""Frames of pandas, polars and Arrow: their columns by name, and columns written to a file for slices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from mptctl.errors import DataError, UsageError, did_you_mean, one_line, some


def is_frame(value: Any) -> bool:
    """Tell whether a value is a frame, which has columns with names, and no array or single column."""
    return _is_arrow(value) or (hasattr(value, "columns") and hasattr(value, "shape"))


def _is_arrow(value: Any) -> bool:
    """Tell whether a value is a table of Arrow."""
    return hasattr(value, "column_names") and hasattr(value, "column")


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns, as text."""
    return [str(name) for name in (frame.column_names if _is_arrow(frame) else frame.columns)]


def column(frame: Any, name: str | int, argument: str) -> Any:
    """Take a column of a frame by its name.

    Args:
        frame: of pandas, polars or Arrow.
        name: of the column; a number names the column of that name, as text does.
        argument: the Python argument that named the column, for messages.

    Raises:
        UsageError: the frame has no such column, or several.
    """
    names = column_names(frame)
    name = str(name)
    if name not in names:
        raise no_column(name, names, argument)
    if names.count(name) > 1:
        raise UsageError(f"{argument}={name!r}: the frame has several columns of this name; rename them")
    if _is_arrow(frame):
        return frame.column(name)
    return frame[frame.columns[names.index(name)]]  # in pandas, names may be other things than text


def no_column(name: str, names: Sequence[str], argument: str) -> UsageError:
    """Make the error of a column that a frame lacks.

    Args:
        name: that was asked for.
        names: the frame's columns.
        argument: the Python argument that named the column.
    """
    return UsageError(
        f"{argument}={name!r}: no column of the frame, which has {some(names, 8)}{did_you_mean(name, names)}"
    )


def write_columns(
    path: Path, frame: Any, names: Sequence[str], ids: NDArray[np.str_] | None, id_name: str
) -> None:
    """Write columns of a frame, with the ids of its rows as `id`, to a Parquet file for slices.

    Args:
        path: of the file.
        frame: of pandas, polars or Arrow.
        names: of the columns.
        ids: (N,) of the rows; None where the frame has a column with them.
        id_name: of that column; not used with `ids`.

    Raises:
        UsageError: the frame lacks one of the columns, or has several of its name.
        DataError: a column holds values of several types.
    """
    columns = {name: arrow_column(frame, name, "by") for name in names}
    id_column = arrow_column(frame, id_name, "id") if ids is None else pa.array(ids.tolist())
    parquet.write_table(pa.table({**columns, "id": id_column}), path)


def arrow_column(frame: Any, name: str, argument: str) -> pa.Array | pa.ChunkedArray:
    """Take a column of a frame by its name, as an Arrow array; errors as `column` and `write_columns`."""
    return _as_arrow(column(frame, name, argument), name)


def _as_arrow(values: Any, name: str) -> pa.Array | pa.ChunkedArray:
    """Convert a column to Arrow; DataError, which names the column, where its values are of several types."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return values.to_arrow() if hasattr(values, "to_arrow") else pa.Array.from_pandas(values)
    except pa.ArrowException as error:
        raise DataError(f"column {name!r}: {one_line(error)}; make its values text") from error
