"""Columns of predictions files, for readers of all forms: names, and conversion of values to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, one_line, some
from mptctl.files.explained import shown

# The columns of a predictions file.
COLUMNS = ("id", "label", "pred", "logits", "classes")
# A remedy, the end of messages.
WRITE = "write integers or text"
# Bytes that a table takes as Python's values for each byte of its file; for text of ten letters it is five.
SWELLING = 5
# Most names, ids or rows that a message lists.
NAMED = 3
# Chosen: most characters of an id, a label or a prediction; no path of a file is longer on any usual system.
LONGEST_VALUE = 10_000


def first(names: Iterable[str]) -> str:
    """List the first three names for a message, safe to print, and say how many more there are."""
    return some((shown(name) for name in names), NAMED)


def too_long(path: Path, column: str, length: int) -> DataError:
    """Make the error of a column that holds a value, or has room for one, of more than `LONGEST_VALUE`."""
    return DataError(
        f"{path}: `{column}` holds a text of {length:,} characters; at most {LONGEST_VALUE:,} are read; "
        "write names"
    )


def unreadable(path: Path, error: BaseException, form: str = "") -> DataError:
    """Make the error of a file that is damaged.

    Args:
        path: of the file.
        error: what its reader raised.
        form: what the file was read as, such as `` as csv``.
    """
    return DataError(f"{path}: cannot be read{form} ({shown(one_line(error), 200)}); write it again")


def rows_named(rows: Sequence[int]) -> str:
    """List the first three rows for a message; `rows` counts from 0, the message from 1."""
    return f"row{'s' if len(rows) > 1 else ''} {first([str(row + 1) for row in rows])}"


def check_headers(path: Path, names: Sequence[str]) -> None:
    """Raise DataError where a file has a column of `COLUMNS` twice."""
    for name in COLUMNS:
        count = names.count(name)
        if count > 1:
            raise DataError(f"{path}: `{name}` heads {count} columns; keep the one that is meant")


def as_text(values: NDArray[Any], what: str, name: str) -> NDArray[np.str_]:
    """Convert labels, ids or class names to text, so that 3 and "3" are the same class in any file.

    Args:
        values: (N,) integers, text, bytes in UTF-8, or floats that are whole and below `whole_limit`; all but
            floats may be (N, 1).
        what: the column, for messages.
        name: the file, for messages.

    Raises:
        DataError: values are anything else, empty, or damaged text (a NUL, or half a character). The message
            says how many, and names the first three.
    """
    values = without_column(np.asarray(values))
    if values.ndim != 1:
        raise DataError(f"{name}: `{what}` has shape {values.shape}; write one value per sample")
    kind = values.dtype.kind
    if kind in "OT":
        values = _from_objects(list(values), what, name)
        kind = values.dtype.kind
    if kind == "f":
        return _as_integers(values, what, name).astype(np.str_)
    if kind in "iu":
        return values.astype(np.str_)
    if kind == "S":
        values = _from_objects(_decode_all(values.tolist(), what, name), what, name)
    elif kind != "U":
        raise DataError(f"{name}: `{what}` holds {values.dtype}; {WRITE}")
    return _check_text(values, what, name)


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Make an (N,) array of the values themselves.

    They are filled in one by one, since numpy by itself makes numbers beside text to text, and drops NULs at
    the end of a text.
    """
    objects = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        objects[i] = value
    return objects


def class_names(values: Sequence[Any] | NDArray[Any], name: str) -> tuple[str, ...]:
    """Convert a list of classes of the file `name` to text; DataError as `as_text`."""
    array = values if isinstance(values, np.ndarray) else as_objects(values)
    return tuple(as_text(array, "classes", name).tolist())


def whole_limit(dtype: np.dtype[Any]) -> int:
    """Return the first integer that a type of floats cannot tell from the next one; at most 2^63.

    >>> whole_limit(np.dtype("float64")) == 2**53
    True
    """
    return int(2 ** min(np.finfo(dtype).nmant + 1, 63))


def without_column(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels of shape (N, 1) as (N,), and all other arrays as they are.

    Floats of shape (N, 1) are no labels: they may be the output of a sigmoid.
    """
    is_one_column = values.ndim == 2 and values.shape[1] == 1
    return values[:, 0] if is_one_column and values.dtype.kind != "f" else values


def _from_objects(values: list[Any], what: str, name: str) -> NDArray[Any]:
    """Convert Python values to an array of text, or of floats if all of them are floats.

    Args:
        values: text, integers, or only floats.
        what: the column, for messages.
        name: the file, for messages.

    Raises:
        DataError: values are anything else, or damaged text.
    """
    if values and all(isinstance(value, float | np.floating) for value in values):
        return np.array(values, dtype=np.float64)
    wrong = [v for v in values if not isinstance(v, str | int | np.integer) or isinstance(v, bool)]
    if wrong:
        raise DataError(
            f"{name}: {len(wrong)} of {len(values)} values of `{what}` are no label "
            f"({first([repr(value) for value in wrong])}); {WRITE}"
        )
    text = [str(value) for value in values]
    # Checked here and not only by `_check_text`, since an array of numpy drops NULs at the end of a text.
    damaged = [i for i, value in enumerate(text) if "\0" in value or not _is_unicode(value)]
    if damaged:
        raise _error_of_damaged(damaged, len(text), what, name)
    return np.array(text, dtype=np.str_)


def _is_unicode(text: str) -> bool:
    """Tell whether a text holds no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _decode_all(values: list[bytes], what: str, name: str) -> list[str]:
    """Decode bytes in UTF-8; DataError, naming column and file, where some are not UTF-8."""
    decoded, wrong = [], []
    for value in values:
        try:
            decoded.append(value.decode("utf-8"))
        except UnicodeDecodeError:
            wrong.append(ascii(value))
    if wrong:
        raise DataError(
            f"{name}: {len(wrong)} of {len(values)} values of `{what}` are not UTF-8 ({first(wrong)}); "
            f"{WRITE}"
        )
    return decoded


def _as_integers(values: NDArray[Any], what: str, name: str) -> NDArray[Any]:
    """Convert (N,) floats to integers.

    Raises:
        DataError: some are not whole, or so large that their type cannot tell them apart (`whole_limit`).
    """
    sound = np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < whole_limit(values.dtype))
    if not sound.all():
        wrong = values[~sound]
        raise DataError(
            f"{name}: {wrong.size} of {values.size} values of `{what}` are not whole numbers that "
            f"{values.dtype} tells apart ({first([str(v) for v in wrong.tolist()])}); {WRITE}"
        )
    return values.astype(np.int64)


def _check_text(values: NDArray[np.str_], what: str, name: str) -> NDArray[np.str_]:
    """Check (N,) text for empty and damaged values, by the array's code points.

    Args:
        values: the text.
        what: the column, for messages.
        name: the file, for messages.

    Returns:
        The same text, contiguous and in the byte order of the machine.

    Raises:
        DataError: a value is empty, or has a NUL before its end or a code point that is no character.
    """
    if not values.size:
        return values
    if not values.dtype.itemsize:
        values = values.astype("U1")
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    codes = values.view(np.uint32).reshape(len(values), -1)  # (N, L): shorter text ends in zeros
    is_zero = codes == 0
    damaged = (is_zero[:, :-1] & ~is_zero[:, 1:]).any(axis=1)
    if codes.size and codes.max() >= 0xD800:
        damaged |= (((codes >= 0xD800) & (codes <= 0xDFFF)) | (codes > 0x10FFFF)).any(axis=1)
    if damaged.any():
        raise _error_of_damaged(np.flatnonzero(damaged).tolist(), len(values), what, name)
    if is_zero[:, 0].any():
        raise empty_cells(np.flatnonzero(is_zero[:, 0]).tolist(), len(values), what, name)
    return values


def _error_of_damaged(rows: list[int], of: int, what: str, name: str) -> DataError:
    """Make the error of a column with damaged text in `rows`, counted from 0, of `of` rows."""
    return DataError(
        f"{name}: {len(rows)} of {of} values of `{what}` hold a NUL or half a character "
        f"({rows_named(rows)}); {WRITE}"
    )


def empty_cells(rows: list[int], of: int, what: str, name: str) -> DataError:
    """Make the error of a column with empty cells in `rows`, counted from 0, of `of` rows."""
    return DataError(
        f"{name}: {len(rows)} empty cells in `{what}` of {of} rows ({rows_named(rows)}); fill them"
    )
