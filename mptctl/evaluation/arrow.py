"""Arrow arrays made without `pa.array`, which imports pandas where that is: half of the start of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


# Values that are Python's own text at one time: they take ten times what Arrow needs for them.
BLOCK = 65_536


def text_array(values: NDArray[np.str_]) -> pa.StringArray:
    """(N,) text as an Arrow array.

    Raises:
        UnicodeEncodeError: text that is no Unicode, such as half of a surrogate pair.
    """
    from pyarrow import lib

    builder = lib.StringBuilder()
    for start in range(0, len(values), BLOCK):
        builder.append_values(values[start : start + BLOCK].tolist())
    return builder.finish()


def number_array(values: NDArray[np.int64]) -> pa.Int64Array:
    """(N,) integers as an Arrow array that shares their memory."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
