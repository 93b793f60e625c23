"""Frames of pandas, polars and Arrow: their columns by name, and as a file that slices are read from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, UsageError, did_you_mean, one_line, some

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(value: Any) -> bool:
    """Tell whether a value has columns with names: a frame, and no array or single column."""
    return _is_arrow(value) or (hasattr(value, "columns") and hasattr(value, "shape"))


def _is_arrow(value: Any) -> bool:
    return hasattr(value, "column_names") and hasattr(value, "column")


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns."""
    return [str(name) for name in (frame.column_names if _is_arrow(frame) else frame.columns)]


def column(frame: Any, name: str, argument: str) -> Any:
    """A column of a frame.

    Args:
        frame: of pandas, polars or Arrow.
        name: of the column.
        argument: that named it, for messages.

    Raises:
        UsageError: the frame has no such column, or several.
    """
    there = column_names(frame)
    if name not in there:
        raise no_column(name, there, argument)
    if there.count(name) > 1:
        raise UsageError(f"{argument}={name!r}: the frame has several columns of this name; rename them")
    if _is_arrow(frame):
        return frame.column(name)
    return frame[frame.columns[there.index(name)]]  # pandas also has names that are no text


def no_column(name: str, there: Sequence[str], argument: str) -> UsageError:
    """The error of a column that none of these is."""
    return UsageError(
        f"{argument}={name!r}: no column of the frame, which has {some(there, 8)}{did_you_mean(name, there)}"
    )


def write_columns(
    path: Path, frame: Any, names: Sequence[str], ids: NDArray[np.str_] | None, id_name: str
) -> None:
    """Write columns of a frame with the ids of its rows as Parquet, which slices are read from.

    Args:
        path: of the file.
        frame: of pandas, polars or Arrow.
        names: of the columns.
        ids: (N,) of the rows; None where the frame has a column of them.
        id_name: of that column.

    Raises:
        UsageError: the frame has no such column.
        DataError: a column holds values of several types.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: _as_arrow(column(frame, name, "by"), name) for name in names}
    of_rows = _as_arrow(column(frame, id_name, "id"), id_name) if ids is None else pa.array(ids.tolist())
    parquet.write_table(pa.table({**columns, "id": of_rows}), path)


def _as_arrow(values: Any, name: str) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return values.to_arrow() if hasattr(values, "to_arrow") else pa.Array.from_pandas(values)
    except pa.ArrowException as error:
        raise DataError(f"column {name!r}: {one_line(error)}; make its values text") from error
