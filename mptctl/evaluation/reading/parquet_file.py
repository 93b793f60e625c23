"""Predictions in a Parquet file: read in batches, and refused where a cell is empty."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet, types

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import (
    COLUMNS,
    NAMED,
    SWELLING,
    as_text,
    check_headers,
    empty_cells,
    first,
    listed,
    rows_named,
    unreadable,
    whole_limit,
)
from mptctl.evaluation.reading.scan import Column, Scanned, SideColumns, scan_rows
from mptctl.evaluation.reading.table import IdKind, file_in_sql
from mptctl.evaluation.reading.workspace import current

# Bytes of a short text or a number as Python's value with its place in an array, and of a logit that is
# copied once.
CELL_BYTES, LOGIT_BYTES = 64, 12
# Columns that DuckDB's reader makes of itself, by which rows are told apart here.
OF_THE_READER = frozenset({"filename", "file_index", "file_row_number"})
# Rows that are decoded in one go: a class list of 1,000 names in each row is 40 MB of them at ten letters a
# name.
BATCH = 4096


def read(path: Path) -> dict[str, NDArray[Any]]:
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


def headers(path: Path) -> list[str]:
    """The names of the columns."""
    names: list[str] = parquet.read_schema(path).names
    return names


def memory_needed(path: Path) -> int:
    """Bytes that `read` takes; a value that is stored once may stand in very many rows."""
    # Not by pyarrow, which ends the whole program where the figures of a column's chunk do not fit its type.
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as database:
        chunks = database.execute(
            "SELECT path_in_schema, num_values, total_uncompressed_size FROM parquet_metadata(?)",
            [glob.escape(str(path.resolve()))],
        ).fetchall()
    needed = 0
    for place, values, size in chunks:
        name = place.split(", ")[0]
        if name == "logits":
            needed += LOGIT_BYTES * values
        elif name in COLUMNS and name != "classes":  # of class lists the first is kept
            needed += max(SWELLING * size, CELL_BYTES * values)
    return needed


def side_columns(path: Path, columns: Sequence[str]) -> SideColumns:
    """Ids and further columns as DuckDB reads them; DataError where ids are floats and no whole numbers."""
    source, whole = f"read_parquet({file_in_sql(path)}, hive_partitioning=false)", ""
    kind = parquet.read_schema(path).field("id").type
    if types.is_floating(kind):
        rows = current().fetch(
            f"SELECT count(*) OVER (), id::VARCHAR FROM {source} WHERE {_not_whole('id', kind)} LIMIT {NAMED}"
        )
        if rows:
            raise DataError(
                f"{path}: {rows[0][0]} values of `id` are not whole numbers that floats of {kind.bit_width} "
                f"bits tell apart ({first([row[1] for row in rows])}); write integers or text"
            )
        whole = "::BIGINT"
    names = [f'"{column}"' for column in (each.replace('"', '""') for each in columns)]
    return SideColumns(source, [f"id{whole}::VARCHAR", *(f"{name}::VARCHAR" for name in names)])


def scan(name: str, parts: Sequence[Path]) -> Scanned | None:
    """Looks through sound predictions without logits, which stay in their files.

    Args:
        name: what the parts together are called.
        parts: the files.

    Returns:
        None where there are logits, or anything that asks for a second look.

    Raises:
        DataError: parts whose columns are not the same, a file that is damaged, or very many different
            classes.
        StorageError: more memory is needed than the workspace may take.
    """
    fields: dict[str, pa.DataType] = {}
    starts: list[int] = []
    rows = 0
    for part in parts:
        try:
            with parquet.ParquetFile(part) as file:
                schema, n = file.schema_arrow, file.metadata.num_rows
        except Exception as error:  # a dozen types, as with every damaged file
            raise unreadable(part, error, " as parquet") from error
        ours = {key: schema.field(key).type for key in COLUMNS if schema.names.count(key) == 1}
        # DuckDB tells no upper case from lower case in names of columns, and has some of its own.
        lower = [header.lower() for header in schema.names]
        if sum(header in COLUMNS for header in lower) != len(ours) or "logits" in ours:
            return None
        if not OF_THE_READER.isdisjoint(lower):
            return None
        if starts and ours != fields:
            raise _unlike_parts(parts[0], fields, part, ours)
        fields = ours
        starts.append(rows)
        rows += n
    columns: dict[str, Column] = {}
    for key in ("id", "label", "pred"):
        column = _column(key, fields[key]) if key in fields else None
        if column is None or not rows:
            return None
        columns[key] = column
    row = "file_row_number" if len(parts) == 1 else f"({starts})[file_index::BIGINT + 1] + file_row_number"
    natives = ", ".join(f"{column.native} AS {key}" for key, column in columns.items())
    classes = ", classes" if "classes" in fields else ""
    files = ", ".join(map(file_in_sql, parts))
    source = (
        f"(SELECT {row} AS row, {natives}{classes} FROM read_parquet([{files}], hive_partitioning=false))"
    )
    kind: IdKind = "integers" if _is_number(_value_type(fields["id"])) else "text"
    return scan_rows(name, source, rows, columns, kind, has_classes=bool(classes))


def _column(key: str, kind: pa.DataType) -> Column | None:
    """A column as DuckDB reads it; None where its type is none of ours."""
    kind, cast = _value_type(kind), "" if key == "id" else "::VARCHAR"
    if types.is_integer(kind):
        return Column(key, f"{key}{cast}", "false")
    if types.is_floating(kind):
        return Column(key, f"{key}::BIGINT{cast}", _not_whole(key, kind), whole=True)
    if not _is_label(kind):
        return None
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return Column(key if is_text else f"decode({key})", key, f"({key} = '' OR contains({key}, chr(0)))")


def _not_whole(column: str, kind: pa.DataType) -> str:
    """SQL that holds for a float which is no whole number that its type tells from its neighbours."""
    limit = whole_limit(np.dtype(f"float{kind.bit_width}"))
    return f"NOT (isfinite({column}) AND {column} = trunc({column}) AND abs({column}) < {limit})"


def _unlike_parts(
    wanted_in: Path, wanted: Mapping[str, pa.DataType], part: Path, found: Mapping[str, pa.DataType]
) -> DataError:
    key = next(key for key in COLUMNS if wanted.get(key) != found.get(key))
    one, other = (str(kinds.get(key, "is missing")) for kinds in (wanted, found))
    return DataError(
        f"{part}: `{key}`: {other}, and in {wanted_in}: {one}; write the same columns and types into all "
        "parts"
    )


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


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_label(kind: pa.DataType) -> bool:
    return _is_number(kind) or bool(
        types.is_string(kind)
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
    if _is_number(column.type):
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    try:
        text = [v.decode("utf-8") if isinstance(v, bytes) else v for v in column.to_pylist()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: `{name}` is not UTF-8 ({error.reason}); write integers or text") from error
    return listed(text)


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
