"""Columns of predictions files, for readers of all forms: names, and values as text or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import lib, types

from mptctl.errors import DataError, MptctlError, StorageError, one_line, some
from mptctl.files.explained import shown

# The columns of a predictions file.
COLUMNS = ("id", "label", "pred", "logits", "classes")
# A remedy, the end of messages.
WRITE = "write integers or text"
# Most names, ids or rows that a message lists.
NAMED = 3
# Chosen: most characters of an id, a label or a prediction; no path of a file is longer on any usual system.
LONGEST_VALUE = 10_000
# Most different labels and predictions of one model: ten times the classes of the largest public data set.
MOST_NAMES = 250_000
# Values that are converted to Python's text at one time: as such they take ten times what Arrow takes.
BLOCK = 65_536


def first(names: Iterable[str]) -> str:
    """List the first three names for a message, safe to print, and say how many more there are."""
    return some((shown(name) for name in names), NAMED)


def too_long(path: Path | str, column: str, length: int) -> DataError:
    """Make the error of a column that holds a value, or has room for one, of more than `LONGEST_VALUE`."""
    return DataError(
        f"{path}: `{column}` holds a text of {length:,} characters; at most {LONGEST_VALUE:,} are read; "
        "write names"
    )


@contextmanager
def explaining(part: Path) -> Iterator[None]:
    """Turn errors of libraries, raised in the block that reads a file, into one that names the file.

    Raises:
        StorageError: for one of too little memory.
        DataError: for any other error that is not ours.
    """
    try:
        yield
    except MptctlError:
        raise
    except Exception as error:  # the libraries raise a dozen types on a damaged file
        import duckdb  # slow to import, and there where a file was read

        if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
            raise StorageError(
                f"{part}: needs more memory than there is ({one_line(error)}); write logits into an "
                "uncompressed .npz (numpy.savez), then they stay on disk"
            ) from error
        raise DataError(
            f"{part}: cannot be read as {part.suffix[1:]} ({shown(one_line(error), 200)}); write it again"
        ) from error


def rows_named(rows: Sequence[int], start: int = 0) -> str:
    """List the first three rows, counted from 0 after `start` others, for a message, which counts from 1."""
    return f"row{'s' if len(rows) > 1 else ''} {first([str(start + row + 1) for row in rows])}"


def known_columns(path: Path, headers: Sequence[str], *, labelled: bool = True) -> list[str]:
    """List those columns of a file that predictions files have, in the order of `COLUMNS`.

    Args:
        path, headers: the file, for messages, and the names of all its columns.
        labelled: a `label` is needed; False: it is left out where there is one.

    Raises:
        DataError: a column is there twice, or one is missing that is needed.
    """
    known = [name for name in COLUMNS if name in headers and (labelled or name != "label")]
    for name in known:
        if headers.count(name) > 1:
            raise DataError(
                f"{path}: `{name}` heads {headers.count(name)} columns; keep the one that is meant"
            )
    found = first(filter(None, headers))  # pandas writes its index without a name
    needed = ("id", "label") if labelled else ("id",)
    missing = [f"no `{name}`" for name in needed if name not in known]
    if missing:
        names = ", ".join(f"`{name}`" for name in needed)
        raise DataError(
            f"{path}: {' and '.join(missing)}; found {found}; name them {names}, and `pred` or `logits`"
        )
    if "pred" not in known and "logits" not in known:
        raise DataError(f"{path}: holds neither `pred` nor `logits`; write one of them; found {found}")
    return known


def as_text(values: NDArray[Any], what: str, name: str) -> NDArray[np.str_]:
    """Convert labels, ids or class names to text, so that 3 and "3" are the same class in any file.

    Args:
        values: (N,), as `to_arrow` takes them.
        what, name: the column and the file, for messages.

    Raises:
        DataError: as `to_arrow`.
    """
    checked = to_arrow(values, what, name)
    if types.is_integer(checked.type):
        return integers(checked).astype(np.str_)
    return np.array(checked.to_pylist(), dtype=np.str_)


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


def _from_objects(values: list[Any], what: str, name: str) -> list[str]:
    """Convert text and integers to text; DataError where values are anything else."""
    wrong = [v for v in values if not isinstance(v, str | int | np.integer) or isinstance(v, bool)]
    if wrong:
        raise DataError(
            f"{name}: {len(wrong)} of {len(values)} values of `{what}` are no label "
            f"({first([repr(value) for value in wrong])}); {WRITE}"
        )
    return [str(value) for value in values]


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


def _check_text(values: pa.StringArray, what: str, name: str, start: int) -> pa.StringArray:
    """Return (n,) text; DataError where a value is empty or has a NUL."""
    # Arrow keeps all texts in one buffer, and where each begins in another; both may hold more than these.
    _, of_begins, of_bytes = values.buffers()
    begins = np.frombuffer(of_begins or bytes(4), np.int32, len(values) + 1, 4 * values.offset)
    content = np.frombuffer(of_bytes or b"", np.uint8)[begins[0] : begins[-1]]
    if not content.all():
        nuls = begins[0] + np.flatnonzero(content == 0)
        rows = np.unique(np.searchsorted(begins, nuls, side="right") - 1)
        raise _error_of_damaged(rows.tolist(), len(values), what, name, start)
    empty = np.flatnonzero(np.diff(begins) == 0)
    if empty.size:
        raise empty_cells(empty.tolist(), len(values), what, name, start)
    return values


def _error_of_damaged(rows: list[int], of: int, what: str, name: str, start: int) -> DataError:
    """Make the error of a column with damaged text in `rows`; all arguments as `empty_cells`."""
    return DataError(
        f"{name}: {len(rows)} of {of} values of `{what}` hold a NUL or half a character "
        f"({rows_named(rows, start)}); {WRITE}"
    )


def empty_cells(rows: list[int], of: int, what: str, name: str, start: int = 0) -> DataError:
    """Make the error of a column with empty cells in `rows`, counted from 0 after `start` others, of `of`."""
    return DataError(
        f"{name}: {len(rows)} empty cells in `{what}` of {of} rows ({rows_named(rows, start)}); fill them"
    )


def refuse_other_classes(name: str, rows: Sequence[int], start: int) -> None:
    """Raise DataError where class lists in `rows`, counted from 0 after `start` others, are not the first."""
    if rows:
        raise DataError(
            f"{name}: {len(rows)} cells of `classes` differ from the first ({rows_named(rows, start)}); "
            "write the same list in each row"
        )


class Vocabulary:
    """Numbers the names of classes in the order in which they come.

    Args:
        name: the model, for messages.

    Attributes:
        names: every name, by its number.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: list[str] = []
        self._number: dict[str, int] = {}

    def codes(self, names: Sequence[str], what: str) -> NDArray[np.int32]:
        """The number of each name; DataError, which names the column, for more than `MOST_NAMES` of them."""
        for name in names:
            if name not in self._number:
                self._number[name] = len(self.names)
                self.names.append(name)
        if len(self.names) > MOST_NAMES:
            raise DataError(
                f"{self.name}: `{what}` holds more than {MOST_NAMES:,} different values "
                f"({shown(min(self.names))}); write classes"
            )
        return np.array([self._number[name] for name in names], dtype=np.int32)


def encode(values: pa.Array, what: str, name: str, start: int, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Convert labels or predictions to numbers of a vocabulary; only the distinct ones are looked at.

    Args:
        values: (n,) of a type that labels may have (`is_label_type`), also as a dictionary.
        what, name, start: the column, the file, and rows before these, for messages.
        vocabulary: takes the names that it does not have yet.

    Raises:
        DataError: a value is no label, as `as_labels` says it.
    """
    _refuse_empty(values, what, name, start)
    coded = values if types.is_dictionary(values.type) else values.dictionary_encode()
    try:
        names = as_labels(coded.dictionary, what, name)
    except DataError:
        # A dictionary may hold a value that is no label, and that no row has: so the rows alone are judged.
        coded = as_labels(coded.dictionary_decode(), what, name, start).dictionary_encode()
        names = coded.dictionary
    codes = vocabulary.codes([str(each) for each in names.to_pylist()], what)
    return np.asarray(codes[integers(coded.indices)])


def as_labels(values: pa.Array, what: str, name: str, start: int = 0) -> pa.Array:
    """Convert ids, labels or class names to int64, or to text where their type is no integer or exceeds it.

    Args:
        values: (n,) of a type that labels may have (`is_label_type`), also as a dictionary. Floats are whole
            and below `whole_limit`.
        what, name, start: the column, the file, and rows before these, for messages.

    Raises:
        DataError: values are empty or damaged, or floats that are not whole; the message names three of them.
    """
    _refuse_empty(values, what, name, start)
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_integer(values.type):
        return values.cast(pa.string() if types.is_uint64(values.type) else pa.int64())
    if types.is_floating(values.type):
        return number_array(_as_integers(values.to_numpy(zero_copy_only=False), what, name))
    # A cast imports pyarrow.compute.
    text = values if types.is_string(values.type) else values.cast(pa.string())
    return _check_text(text, what, name, start)


def _refuse_empty(values: pa.Array, what: str, name: str, start: int) -> None:
    """Raise DataError where cells of a column are empty."""
    if values.null_count:
        rows = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
        raise empty_cells(rows, len(values), what, name, start)


def integers(values: pa.Array) -> NDArray[Any]:
    """View an Arrow array of integers, without empty cells, as (n,) of numpy.

    `to_numpy` would do it, too, but imports pandas if it is installed.
    """
    kind = np.dtype(str(values.type))
    start = values.offset * kind.itemsize
    return (
        np.frombuffer(values.buffers()[1] or b"", kind, len(values), start)
        if len(values)
        else np.empty(0, kind)
    )


def is_label_type(kind: pa.DataType) -> bool:
    """Tell whether a type is one that ids, labels and predictions may have: a number, text, or bytes."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    of_text = (types.is_string, types.is_large_string, types.is_string_view)
    tests = (types.is_integer, types.is_floating, *of_text, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def to_arrow(values: NDArray[Any], what: str, name: str) -> pa.Array:
    """Convert an array of labels or ids to Arrow: int64, or text where their type is no integer of 63 bits.

    Args:
        values: (N,) integers, text, bytes in UTF-8, or floats that are whole and below `whole_limit`; all but
            floats may be (N, 1).
        what, name: the column and the file, for messages.

    Raises:
        DataError: values are anything else, empty, or damaged text (a NUL, or half a character).
    """
    values = without_column(np.asarray(values))
    if values.ndim != 1:
        raise DataError(f"{name}: `{what}` has shape {values.shape}; write one value per sample")
    # Letters of numpy: O objects, T and U text, S bytes, i and u integers, f floats.
    holds_objects = values.dtype.kind in "OT"
    if holds_objects and len(values) and all(isinstance(value, float | np.floating) for value in values):
        values = values.astype(np.float64)
    kind = values.dtype.kind
    if kind in "iu" and values.dtype != np.uint64:
        return number_array(values.astype(np.int64))
    if kind == "f":
        return number_array(_as_integers(values, what, name))
    if kind not in "OTSUu":
        raise DataError(f"{name}: `{what}` holds {values.dtype}; {WRITE}")
    as_text_of = _decode_all if kind == "S" else _from_objects
    text = as_text_of(values.tolist(), what, name)
    try:
        return _check_text(text_array(text), what, name, 0)
    except UnicodeEncodeError:
        damaged = [i for i, each in enumerate(text) if "\0" in each or not _is_unicode(each)]
        raise _error_of_damaged(damaged, len(text), what, name, 0) from None


def _is_unicode(text: str) -> bool:
    """Tell whether a text holds no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def text_array(values: NDArray[Any] | list[str]) -> pa.StringArray:
    """Convert (N,) text to an Arrow array.

    `pa.array` would do it, too, but imports pandas if it is installed, which doubles the time to start.

    Raises:
        UnicodeEncodeError: a text is no Unicode, such as half of a surrogate pair.
    """
    builder = lib.StringBuilder()
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        builder.append_values(block if isinstance(block, list) else block.tolist())
    return builder.finish()


def number_array(values: NDArray[Any]) -> pa.Array:
    """Convert (N,) int32 or int64 to an Arrow array that shares their memory if they are contiguous."""
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
