"""Arrays of any library as arrays of numpy, by what they offer, so that no library is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, one_line
from mptctl.evaluation.reading.columns import listed, without_column

GIVE = "give (N,) labels or predictions, or (N, C) logits, as an array, a column or a list"


def as_array(value: Any, name: str, dimensions: tuple[int, ...] = (1, 2)) -> NDArray[Any]:
    """Labels, answers or logits as an array of numpy.

    Args:
        value: (N,) or (N, C): a list, or whatever has `__array__`, `__dlpack__`, `to_numpy`, `tolist` or
            Arrow's `__arrow_c_array__`: arrays of numpy, torch and jax on any device, columns and tables of
            pandas and polars, arrays of Arrow. Lists may hold such rows.
        name: what it is, for messages.
        dimensions: how many it may have.

    Returns:
        (N,) of the type that it has, also of (N, 1) labels; (N, C) floats where its rows are lists.

    Raises:
        DataError: no array, or one of another number of dimensions.
    """
    if value is None or isinstance(value, str | bytes | Mapping | Set):
        raise DataError(f"{name}: {_kind_in_words(value)}, which is no array; {GIVE}")
    try:
        found = _stacked(_converted(value, name), name)
    except DataError:
        raise
    except Exception as error:  # each library has its own errors
        raise DataError(
            f"{name}: of {_kind(value)}, cannot be read ({one_line(error)[:120]}); {GIVE}"
        ) from error
    if found is None:
        raise DataError(f"{name}: rows of different lengths; {GIVE}")
    if found.ndim not in dimensions:
        raise DataError(f"{name}: has shape {found.shape}; {GIVE}")
    return without_column(found)


def _kind_in_words(value: Any) -> str:
    if value is None:
        return "nothing"
    return "a text" if isinstance(value, str) else f"a {_kind(value)}"


def _kind(value: Any) -> str:
    return type(value).__name__


def _converted(value: Any, name: str) -> NDArray[Any]:
    """The array that a value offers, by the surest way that it has. Lists within are left as they are."""
    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, name)
    if isinstance(value, np.ndarray):
        return _known_float(value)
    # Arrays of torch: off the graph and the device, in a type of numpy's.
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        plain = value.detach().cpu()
        return np.asarray(plain.float() if "bfloat16" in str(plain.dtype) else plain)
    if hasattr(value, "to_numpy_ndarray"):  # Arrow's arrays of tensors
        return np.asarray(value.to_numpy_ndarray())
    if hasattr(value, "__array__"):
        return _known_float(np.asarray(value))
    if hasattr(value, "to_numpy"):
        return np.asarray(value.to_numpy())
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        import pyarrow as pa

        is_array = hasattr(value, "__arrow_c_array__")
        return np.asarray(pa.array(value) if is_array else pa.chunked_array(value))
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, Iterable):
        raise DataError(f"{name}: of {_kind(value)}, which is no array; {GIVE}")
    return listed(list(value))


def _unmasked(array: np.ma.MaskedArray[Any, Any], name: str) -> NDArray[Any]:
    """The values of an array of which none is masked: what lies under a mask is nobody's answer."""
    masked = int(np.ma.getmaskarray(array).sum())
    if masked:
        raise DataError(
            f"{name}: {masked} of {array.size} values are masked; fill them, or leave their rows out"
        )
    return _known_float(array.data)


def _known_float(array: NDArray[Any]) -> NDArray[Any]:
    """Types of floats that numpy has from others, such as jax's bfloat16, in single precision."""
    return array.astype(np.float32) if array.dtype.kind == "V" and "float" in array.dtype.name else array


def _stacked(array: NDArray[Any], name: str) -> NDArray[Any] | None:
    """Rows that are lists or arrays themselves as one array of floats; None where their lengths differ."""
    if array.dtype != object or array.ndim != 1 or not array.size:
        return array
    if masked := sum(
        isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value)) for value in array
    ):
        raise DataError(
            f"{name}: {masked} of {len(array)} values are masked; fill them, or leave their rows out"
        )
    if isinstance(array[0], list | tuple) or (hasattr(array[0], "ndim") and array[0].ndim > 0):
        rows = [np.asarray(_converted(row, "row"), dtype=np.float64) for row in array]
        if len({row.shape for row in rows}) > 1:
            return None
        return np.stack(rows)
    scalars = [v.item() if getattr(v, "ndim", None) == 0 else v for v in array.tolist()]
    return listed(scalars)
