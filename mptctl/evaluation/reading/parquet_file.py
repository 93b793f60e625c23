"""Predictions in a Parquet file: read in batches, and refused where a cell is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet, types

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import COLUMNS, as_text, check_headers, empty_cells, rows_named

# Rows that are decoded in one go: a class list of 1,000 names in each row is 40 MB of them at ten letters a name.
BATCH = 4096


def read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a predictions file by name: values, logits (N, C), and one class list.

    Raises:
        DataError: a column that stands there twice or is of a wrong type, empty cells, and lists that are of
            different lengths or differ.
        pyarrow.ArrowException: no Parquet file, or a damaged one.
    """
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        check_headers(path, schema.names)
        wanted = [name for name in COLUMNS if name in schema.names]
        for name in wanted:
            _check_type(path, name, schema.field(name).type)
        parts: dict[str, list[NDArray[Any]]] = {
            name: [] for name in wanted if name not in ("logits", "classes")
        }
        rows = file.metadata.num_rows
        logits = _Logits(path, rows)
        classes = _Classes(path, rows)
        start = 0
        for batch in file.iter_batches(BATCH, columns=wanted):
            for name in wanted:
                column = _decoded(batch.column(name))
                if column.null_count:
                    raise empty_cells(_empty_rows(file, name), rows, name, str(path))
                if name == "logits":
                    logits.add(column, start)
                elif name == "classes":
                    classes.add(column, start)
                else:
                    parts[name].append(_values(path, name, column))
            start += batch.num_rows
    columns = {name: np.concatenate(part) if part else np.array([], str) for name, part in parts.items()}
    if logits.values is not None:
        columns["logits"] = logits.values
    if classes.names is not None:
        classes.check()
        columns["classes"] = classes.names
    return columns


def headers_parquet(path: Path) -> list[str]:
    """The names of the columns."""
    names: list[str] = parquet.read_schema(path).names
    return names


def _check_type(path: Path, name: str, kind: pa.DataType) -> None:
    if name in ("logits", "classes"):
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise DataError(f"{path}: `{name}` holds {kind}; write a list in each row")
        item = _value_type(kind.value_type)
        sound = types.is_floating(item) if name == "logits" else _is_label(item)
        wants = "floats" if name == "logits" else "integers or text"
    else:
        sound, wants = _is_label(_value_type(kind)), "integers or text"
    if not sound:
        raise DataError(f"{path}: `{name}` holds {kind}; write {wants}")


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


def _is_label(kind: pa.DataType) -> bool:
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def _empty_rows(file: parquet.ParquetFile, name: str) -> list[int]:
    """Rows of a column that hold nothing, counted from 0."""
    batches = [
        _decoded(b.column(name)).is_null().to_numpy(False) for b in file.iter_batches(BATCH, columns=[name])
    ]
    return np.flatnonzero(np.concatenate(batches)).tolist()


def _values(path: Path, name: str, column: pa.Array) -> NDArray[Any]:
    """A column without empty cells as numbers, or as Python's text."""
    if types.is_integer(column.type) or types.is_floating(column.type):
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    try:
        text = [v.decode("utf-8") if isinstance(v, bytes) else v for v in column.to_pylist()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: `{name}` is not UTF-8 ({error.reason}); write integers or text") from error
    # Filled one by one: numpy would drop a NUL at the end, which is to be found and refused.
    values = np.empty(len(text), dtype=object)
    values[:] = text
    return values


def _items(path: Path, name: str, column: pa.Array, start: int) -> tuple[NDArray[np.int64], pa.Array]:
    """Lengths (n,) of the lists of a column, and their items one after another."""
    if types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(column.offsets.to_numpy())
    items = _decoded(column.flatten())
    if items.null_count:
        holes = np.repeat(np.arange(len(column)), lengths)[items.is_null().to_numpy(False)]
        rows = np.unique(holes) + start
        raise DataError(
            f"{path}: `{name}` holds empty items in {len(rows)} rows ({rows_named(rows.tolist())}); fill them"
        )
    return lengths, items


class _Logits:
    """The lists of logits, stacked as they come."""

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self.values: NDArray[Any] | None = None

    def add(self, column: pa.Array, start: int) -> None:
        lengths, items = _items(self.path, "logits", column, start)
        flat = items.to_numpy(zero_copy_only=False)
        if self.values is None:
            self.values = np.empty((self.rows, int(lengths[0])), dtype=flat.dtype)
        if (lengths != self.values.shape[1]).any():
            raise DataError(f"{self.path}: rows of `logits` are of different lengths; write (N, C)")
        self.values[start : start + len(lengths)] = flat.reshape(len(lengths), self.values.shape[1])


class _Classes:
    """The class list of the first row, and the rows where it is another one."""

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self.names: NDArray[np.str_] | None = None
        self.other: list[int] = []

    def add(self, column: pa.Array, start: int) -> None:
        lengths, items = _items(self.path, "classes", column, start)
        if self.names is None:
            own = items[: int(lengths[0])]
            self.names = as_text(_values(self.path, "classes", own), "classes", str(self.path))
        alike = lengths == len(self.names)
        if alike.all() and alike.size:
            # Numbers stand for the distinct names, so that a thousand names in each row take little memory.
            coded = items.dictionary_encode()
            distinct = as_text(_values(self.path, "classes", coded.dictionary), "classes", str(self.path))
            number = {text: i for i, text in enumerate(distinct.tolist())}
            of_code = np.array([number[text] for text in distinct.tolist()], dtype=np.int64)
            wanted = np.array([number.get(text, -1) for text in self.names.tolist()])
            found = of_code[coded.indices.to_numpy(zero_copy_only=False)].reshape(len(lengths), len(wanted))
            alike = (found == wanted).all(axis=1)
        self.other += (np.flatnonzero(~alike) + start).tolist()

    def check(self) -> None:
        if self.other:
            raise DataError(
                f"{self.path}: {len(self.other)} of {self.rows} cells of `classes` differ from the first "
                f"({rows_named(self.other)}); write the same list in each row"
            )
