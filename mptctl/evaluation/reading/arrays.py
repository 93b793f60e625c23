"""Conversion of any library's arrays to numpy, by the methods that they have, so no library is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, one_line
from mptctl.evaluation.reading.columns import as_objects, without_column

# A remedy, the end of messages.
GIVE = "give (N,) labels or predictions, or (N, C) logits, as an array, a column or a list"


def as_array(value: Any, name: str, dimensions: tuple[int, ...] = (1, 2)) -> NDArray[Any]:
    """Convert labels, answers or logits to an array of numpy.

    Args:
        value: (N,) or (N, C): a list, a list of such rows, or whatever has `__array__`, `__dlpack__`,
            `to_numpy`, `tolist` or Arrow's `__arrow_c_array__`. That is, arrays of numpy, torch and jax on
            any device, columns and tables of pandas and polars, arrays of Arrow.
        name: what it is, for messages.
        dimensions: the numbers of dimensions that are allowed.

    Returns:
        The array in its own type; (N, C) floats where rows are lists, and (N,) for labels of shape (N, 1).

    Raises:
        DataError: the value is no array, has masked values or rows of different lengths, or another number of
            dimensions.
    """
    if value is None or isinstance(value, str | bytes | Mapping | Set):
        raise DataError(f"{name}: {_kind_in_words(value)}, which is no array; {GIVE}")
    try:
        array = _stack(_convert(value, name), name)
    except DataError:
        raise
    except Exception as error:  # each library has its own errors
        raise DataError(
            f"{name}: of {type(value).__name__}, cannot be read ({one_line(error)[:120]}); {GIVE}"
        ) from error
    if array.ndim not in dimensions:
        raise DataError(f"{name}: has shape {array.shape}; {GIVE}")
    return without_column(array)


def _kind_in_words(value: Any) -> str:
    """Name the type of a value that is no array, for a message."""
    if value is None:
        return "nothing"
    return "a text" if isinstance(value, str) else f"a {type(value).__name__}"


def _convert(value: Any, name: str) -> NDArray[Any]:
    """Convert a value to an array by the first method that it has; rows that are lists stay lists.

    Raises:
        DataError: the value has masked entries, or none of the methods and cannot be iterated.
    """
    if isinstance(value, np.ma.MaskedArray):
        return _without_mask(value, name)
    if isinstance(value, np.ndarray):
        return _to_known_float(value)
    # Tensors of torch are detached from the graph and copied from the device.
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        plain = value.detach().cpu()
        return np.asarray(plain.float() if "bfloat16" in str(plain.dtype) else plain)
    if hasattr(value, "to_numpy_ndarray"):  # Arrow's arrays of tensors
        return np.asarray(value.to_numpy_ndarray())
    if hasattr(value, "__array__"):
        return _to_known_float(np.asarray(value))
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
        raise DataError(f"{name}: of {type(value).__name__}, which is no array; {GIVE}")
    return as_objects(list(value))


def _without_mask(array: np.ma.MaskedArray[Any, Any], name: str) -> NDArray[Any]:
    """Return the values of a masked array; DataError where one is masked, since that is no answer."""
    masked = int(np.ma.getmaskarray(array).sum())
    if masked:
        raise DataError(
            f"{name}: {masked} of {array.size} values are masked; fill them, or leave their rows out"
        )
    return _to_known_float(array.data)


def _to_known_float(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array of floats of a type from outside numpy, such as jax's bfloat16, to single precision.

    Any other array is returned as it is.
    """
    return array.astype(np.float32) if array.dtype.kind == "V" and "float" in array.dtype.name else array


def _stack(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Stack the rows of an array of objects, which are lists or arrays, to one array of floats.

    Returns:
        (N, C) floats. An array that holds no rows is returned, with arrays of zero dimensions in it as
        Python's numbers.

    Raises:
        DataError: values are masked, or rows are of different lengths.
    """
    if array.dtype != object or array.ndim != 1 or not array.size:
        return array
    masked_count = sum(
        isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value)) for value in array
    )
    if masked_count:
        raise DataError(
            f"{name}: {masked_count} of {len(array)} values are masked; fill them, or leave their rows out"
        )
    if isinstance(array[0], list | tuple) or (hasattr(array[0], "ndim") and array[0].ndim > 0):
        rows = [np.asarray(_convert(row, "row"), dtype=np.float64) for row in array]
        if len({row.shape for row in rows}) > 1:
            raise DataError(f"{name}: rows of different lengths; {GIVE}")
        return np.stack(rows)
    scalars = [v.item() if getattr(v, "ndim", None) == 0 else v for v in array.tolist()]
    return as_objects(scalars)
