"""Batches of Arrow, of a Parquet file or a frame: types are checked, and lists become arrays."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import (
    COLUMNS,
    as_labels,
    empty_cells,
    integers,
    is_label_type,
    refuse_other_classes,
    rows_named,
)


def read_batches(
    name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], wanted: Sequence[str]
) -> Generator[dict[str, Any]]:
    """Read some columns batch by batch.

    Args:
        name: the file or frame, for messages.
        schema: of all batches.
        batches: with these columns.
        wanted: columns, each once in the schema.

    Yields:
        Arrow arrays by column; `logits` as (n, C) floats; `classes` as the one list of all rows.

    Raises:
        DataError: a column is of a wrong type, a cell or item of a list is empty, lists of logits have
            different lengths, or class lists differ.
    """
    for column in set(wanted) & set(COLUMNS):
        _check_type(name, column, schema.field(column).type)
    start = 0
    for batch in batches:
        columns = {column: batch.column(column) for column in wanted}
        if len(batch) and "logits" in columns:
            columns["logits"] = _logits(name, columns["logits"], start)
        if len(batch) and "classes" in columns:
            columns["classes"] = _classes(name, columns["classes"], start)
        yield columns
        start += len(batch)


def _check_type(name: str, column: str, kind: pa.DataType) -> None:
    """Raise DataError where a column of predictions is of a wrong type."""
    has_lists = column in ("logits", "classes")
    if has_lists and not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise DataError(f"{name}: `{column}` holds {kind}; write a list in each row")
    value = kind.value_type if has_lists else kind
    if column == "logits" and not types.is_floating(value):
        raise DataError(f"{name}: `{column}` holds {kind}; write floats")
    if column != "logits" and not is_label_type(value):
        raise DataError(f"{name}: `{column}` holds {kind}; write integers or text")


def _logits(name: str, column: pa.Array, start: int) -> NDArray[Any]:
    """Stack n lists to (n, C); DataError where a list or item is empty, or lengths differ."""
    lengths, items = _flatten(name, "logits", column, start)
    if (lengths != lengths[0]).any():
        raise DataError(f"{name}: rows of `logits` are of different lengths; write (N, C)")
    return np.asarray(items.to_numpy(zero_copy_only=False)).reshape(len(lengths), int(lengths[0]))


def _classes(name: str, column: pa.Array, start: int) -> tuple[str, ...]:
    """Return the first of n lists; DataError where another one differs, or an item is empty or no text."""
    lengths, items = _flatten(name, "classes", column, start)
    if types.is_dictionary(items.type):
        items = items.dictionary_decode()
    width = int(lengths[0])
    is_same = lengths == width
    if is_same.all():
        # Names are compared as numbers, so that a thousand names in each row take little memory.
        codes = integers(items.dictionary_encode().indices).reshape(len(lengths), width)
        is_same = (codes == codes[0]).all(axis=1)
    refuse_other_classes(name, np.flatnonzero(~is_same).tolist(), start)
    return tuple(map(str, as_labels(items.slice(0, width), "classes", name).to_pylist()))


def _flatten(name: str, what: str, column: pa.Array, start: int) -> tuple[NDArray[np.int64], pa.Array]:
    """Flatten a column of n lists, of which the first is in row `start`: (n,) lengths, and all items.

    Raises:
        DataError: a list or an item is empty.
    """
    if column.null_count:
        rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
        raise empty_cells(rows, len(column), what, name, start)
    if types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(column.offsets.to_numpy())
    items = column.flatten()
    if items.null_count:
        row_of_item = np.repeat(np.arange(len(column)), lengths)
        rows = np.unique(row_of_item[items.is_null().to_numpy(zero_copy_only=False)]).tolist()
        raise DataError(
            f"{name}: `{what}` holds empty items in {len(rows)} rows ({rows_named(rows, start)}); fill them"
        )
    return lengths, items
