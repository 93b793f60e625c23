"""Columns of predictions files, for all readers: their names, and their values as text or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, one_line, some
from mptctl.files.explained import shown

COLUMNS = ("id", "label", "pred", "logits", "classes")
WRITE = "write integers or text"
# Bytes that a table takes as Python's values for each byte that it takes as a file: five of text of ten
# letters.
SWELLING = 5
# Names, ids or rows that a message gives at most.
NAMED = 3


def first(names: Iterable[str]) -> str:
    """The first three of some names as a message may hold them, and how many more there are."""
    return some((shown(name) for name in names), NAMED)


def unreadable(path: Path, error: BaseException, form: str = "") -> DataError:
    """The error of a damaged file."""
    return DataError(f"{path}: cannot be read{form} ({shown(one_line(error), 200)}); write it again")


def rows_named(rows: Sequence[int]) -> str:
    """The first three of some rows, counted from 0 in `rows` and from 1 in the text."""
    return f"row{'s' if len(rows) > 1 else ''} {first([str(row + 1) for row in rows])}"


def check_headers(path: Path, names: Sequence[str]) -> None:
    """DataError where one of our columns stands in a table twice: nobody could say which is meant."""
    for name in COLUMNS:
        if (count := names.count(name)) > 1:
            raise DataError(f"{path}: `{name}` heads {count} columns; keep the one that is meant")


def as_text(values: NDArray[Any], what: str, name: str) -> NDArray[np.str_]:
    """Labels, ids or class names as text, so that 3 and "3" are the same class whatever the file's type.

    Args:
        values: (N,) integers, text, bytes in UTF-8, or floats that are whole and below `whole_limit`; all but
            floats may be (N, 1).
        what: the column, for messages.
        name: the file, for messages.

    Raises:
        DataError: anything else, with how many values and the first three.
    """
    values = without_column(np.asarray(values))
    if values.ndim != 1:
        raise DataError(f"{name}: `{what}` has shape {values.shape}; write one value per sample")
    kind = values.dtype.kind
    if kind in "OT":
        values = _plain(list(values), what, name)
        kind = values.dtype.kind
    if kind == "f":
        return _as_integers(values, what, name).astype(np.str_)
    if kind in "iu":
        return values.astype(np.str_)
    if kind == "S":
        values = _plain(_decode_all(values.tolist(), what, name), what, name)
    elif kind != "U":
        raise DataError(f"{name}: `{what}` holds {values.dtype}; {WRITE}")
    return _checked(values, what, name)


def listed(values: Sequence[Any]) -> NDArray[Any]:
    """(N,) objects, filled one by one: numpy makes text of numbers beside text, and drops trailing NULs."""
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found


def class_names(values: Sequence[Any] | NDArray[Any], name: str) -> tuple[str, ...]:
    """A list of classes as text; DataError as `as_text`."""
    array = values if isinstance(values, np.ndarray) else listed(values)
    return tuple(as_text(array, "classes", name).tolist())


def whole_limit(dtype: np.dtype[Any]) -> int:
    """The first integer that a type of floats cannot tell from its neighbour.

    >>> whole_limit(np.dtype("float64")) == 2**53
    True
    """
    return int(2 ** min(np.finfo(dtype).nmant + 1, 63))


def without_column(values: NDArray[Any]) -> NDArray[Any]:
    """(N,) of an array (N, 1) of labels; floats stay, since they may be what a sigmoid gives."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 and values.dtype.kind != "f" else values


def _plain(values: list[Any], what: str, name: str) -> NDArray[Any]:
    """Python values as an array of text, or of floats where all of them are floats."""
    if values and all(isinstance(v, float | np.floating) for v in values):
        return np.array(values, dtype=np.float64)
    if wrong := [v for v in values if not isinstance(v, str | int | np.integer) or isinstance(v, bool)]:
        raise DataError(
            f"{name}: {len(wrong)} of {len(values)} values of `{what}` are no label "
            f"({first([repr(v) for v in wrong])}); {WRITE}"
        )
    text = [str(v) for v in values]
    # Looked for here too, because an array of numpy drops NULs at the end of a text.
    if damaged := [i for i, v in enumerate(text) if "\0" in v or not _is_unicode(v)]:
        raise _no_text(damaged, len(text), what, name)
    return np.array(text, dtype=np.str_)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _decode_all(values: list[bytes], what: str, name: str) -> list[str]:
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
    """Floats as integers; DataError where some are no whole numbers."""
    sound = np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < whole_limit(values.dtype))
    if not sound.all():
        wrong = values[~sound]
        raise DataError(
            f"{name}: {wrong.size} of {values.size} values of `{what}` are not whole numbers that "
            f"{values.dtype} tells apart ({first([str(v) for v in wrong.tolist()])}); {WRITE}"
        )
    return values.astype(np.int64)


def _checked(values: NDArray[np.str_], what: str, name: str) -> NDArray[np.str_]:
    """Text without empty values, NULs, and what is no Unicode: looked for in the array's code points."""
    if not values.size:
        return values
    if not values.dtype.itemsize:
        values = values.astype("U1")
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    codes = values.view(np.uint32).reshape(len(values), -1)
    zero = codes == 0
    damaged = (zero[:, :-1] & ~zero[:, 1:]).any(axis=1)
    if codes.size and codes.max() >= 0xD800:
        damaged |= (((codes >= 0xD800) & (codes <= 0xDFFF)) | (codes > 0x10FFFF)).any(axis=1)
    if damaged.any():
        raise _no_text(np.flatnonzero(damaged).tolist(), len(values), what, name)
    if empty := np.flatnonzero(zero[:, 0]).tolist():
        raise empty_cells(empty, len(values), what, name)
    return values


def _no_text(rows: list[int], of: int, what: str, name: str) -> DataError:
    return DataError(
        f"{name}: {len(rows)} of {of} values of `{what}` hold a NUL or half a character "
        f"({rows_named(rows)}); {WRITE}"
    )


def empty_cells(rows: list[int], of: int, what: str, name: str) -> DataError:
    """The error of a column with empty cells in `rows`, counted from 0."""
    return DataError(
        f"{name}: {len(rows)} empty cells in `{what}` of {of} rows ({rows_named(rows)}); fill them"
    )
