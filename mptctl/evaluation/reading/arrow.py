"""Arrow arrays made without `pa.array`, which imports pandas where that is: half of the start of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.reading.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa


# Values that are Python's own text at one time: they take ten times what Arrow needs for them.
BLOCK = 65_536


def register(work: Workspace, columns: Mapping[str, NDArray[Any] | list[str]]) -> str:
    """SQL: a relation of these columns of integers and text, in the workspace; drop the view when it is done."""
    import pyarrow as pa

    name = work.name()
    arrays = [
        number_array(values)
        if isinstance(values, np.ndarray) and values.dtype.kind == "i"
        else text_array(values)
        for values in columns.values()
    ]
    work.connection.register(name, pa.Table.from_arrays(arrays, names=[*columns]))
    return name


def text_array(values: NDArray[Any] | list[str]) -> pa.StringArray:
    """(N,) text as an Arrow array.

    Raises:
        UnicodeEncodeError: text that is no Unicode, such as half of a surrogate pair.
    """
    from pyarrow import lib

    builder = lib.StringBuilder()
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        builder.append_values(block if isinstance(block, list) else block.tolist())
    return builder.finish()


def number_array(values: NDArray[np.int64]) -> pa.Int64Array:
    """(N,) integers as an Arrow array that shares their memory."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
