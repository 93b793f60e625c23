"""Predictions in a Parquet file: read in batches, or scanned by DuckDB; empty cells are refused."""

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
    LONGEST_VALUE,
    NAMED,
    SWELLING,
    as_objects,
    as_text,
    check_headers,
    empty_cells,
    first,
    rows_named,
    too_long,
    unreadable,
    whole_limit,
)
from mptctl.evaluation.reading.scan import Column, Scanned, SideColumns, scan_rows
from mptctl.evaluation.reading.table import IdKind, file_in_sql
from mptctl.evaluation.reading.workspace import current

# Bytes of memory for a short text or a number as a value of Python with its place in an array, and for a
# logit, which is copied once.
CELL_BYTES, LOGIT_BYTES = 64, 12
# Columns that DuckDB's reader adds; the scan counts rows by the last two.
OF_THE_READER = frozenset({"filename", "file_index", "file_row_number"})
# Rows that are decoded at once. With a list of 1,000 classes of ten letters in each row, these are 40 MB.
BATCH = 4096


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a predictions file, by name.

    Returns:
        (N,) numbers or text; `logits` (N, C) in their own type; `classes` (C,), the one list of all rows.

    Raises:
        DataError: a column occurs twice or is of a wrong type, a cell is empty, lists of logits have
            different lengths, or class lists differ.
        pyarrow.ArrowException: no Parquet file, or a damaged one.
    """
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        check_headers(path, schema.names)
        wanted = [name for name in COLUMNS if name in schema.names]
        for name in wanted:
            _check_type(path, name, schema.field(name).type)
        _refuse_long_texts(path, schema)
        parts: dict[str, list[NDArray[Any]]] = {
            name: [] for name in wanted if name not in ("logits", "classes")
        }
        rows = file.metadata.num_rows
        logits = _Logits(path, rows)
        classes = _Classes(path, rows)
        start = 0
        for batch in file.iter_batches(BATCH, columns=wanted):
            for name in wanted:
                column = _decode(batch.column(name))
                if column.null_count:
                    raise empty_cells(_empty_rows(file, name), rows, name, str(path))
                if name == "logits":
                    logits.add(column, start)
                elif name == "classes":
                    classes.add(column, start)
                else:
                    parts[name].append(_to_array(path, name, column))
            start += batch.num_rows
    columns = {name: np.concatenate(part) if part else np.array([], str) for name, part in parts.items()}
    if logits.values is not None:
        columns["logits"] = logits.values
    if classes.names is not None:
        classes.check()
        columns["classes"] = classes.names
    return columns


def headers(path: Path) -> list[str]:
    """Read the names of the columns."""
    return list(parquet.read_schema(path).names)


def memory_needed(path: Path) -> int:
    """Estimate the bytes of memory that `read` takes.

    The size of the file does not tell them: a value that is stored once may be in very many rows.
    """
    # By DuckDB, since pyarrow ends the whole process if a chunk's statistics do not fit its column's type.
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as database:
        chunks = database.execute(
            "SELECT path_in_schema, num_values, total_uncompressed_size FROM parquet_metadata(?)",
            [glob.escape(str(path.resolve()))],
        ).fetchall()
    needed = 0
    for column_path, values, size in chunks:
        name = column_path.split(", ")[0]
        if name == "logits":
            needed += LOGIT_BYTES * values
        elif name in COLUMNS and name != "classes":  # only the first class list is kept
            needed += max(SWELLING * size, CELL_BYTES * values)
    return needed


def side_columns(path: Path, columns: Sequence[str]) -> SideColumns:
    """Find the ids and further columns for DuckDB; DataError where ids are floats but not whole numbers."""
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
    names = ['"' + column.replace('"', '""') + '"' for column in columns]
    return SideColumns(source, [f"id{whole}::VARCHAR", *(f"{name}::VARCHAR" for name in names)])


def scan(name: str, parts: Sequence[Path]) -> Scanned | None:
    """Check predictions without logits, which stay in their files, by DuckDB.

    Args:
        name: of all parts together, for progress and messages.
        parts: the files.

    Returns:
        The predictions; None where there are logits, or anything unusual that `read` has to judge.

    Raises:
        DataError: the columns of two parts differ, a file is damaged, or there are very many different
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
        except Exception as error:  # pyarrow raises a dozen types on a damaged file
            raise unreadable(part, error, " as parquet") from error
        types_here = {key: schema.field(key).type for key in COLUMNS if schema.names.count(key) == 1}
        # DuckDB does not distinguish upper and lower case in names of columns.
        lower = [header.lower() for header in schema.names]
        if sum(header in COLUMNS for header in lower) != len(types_here) or "logits" in types_here:
            return None
        if not OF_THE_READER.isdisjoint(lower):
            return None
        _refuse_long_texts(part, schema)
        if starts and types_here != fields:
            raise _error_of_unlike_parts(parts[0], fields, part, types_here)
        fields = types_here
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


def _refuse_long_texts(path: Path, schema: pa.Schema) -> None:
    """Raise DataError where an id, label or prediction, or a class of the first row, is a very long text.

    A text that a file holds once, in a few bytes, may stand in very many rows; DuckDB measures it without a
    copy.
    """
    source = f"read_parquet({file_in_sql(path)}, hive_partitioning=false)"
    for name in ("id", "label", "pred", "classes"):
        kind = _value_type(schema.field(name).type) if schema.names.count(name) == 1 else pa.null()
        item = _value_type(kind.value_type) if name == "classes" and hasattr(kind, "value_type") else kind
        if _is_number(item) or not _is_label(item):
            continue
        first_row = f"(SELECT classes FROM {source} LIMIT 1)"
        relation = source if item is kind else f"(SELECT unnest(classes) AS classes FROM {first_row})"
        measure = "strlen" if _is_text(item) else "octet_length"
        try:
            ((longest,),) = current().fetch(f"SELECT max({measure}({name})) FROM {relation}")
        except duckdb.Error:
            return  # what is unusual or damaged is judged where the file is read
        if longest is not None and longest > LONGEST_VALUE:
            raise too_long(path, name, longest)


def _column(key: str, kind: pa.DataType) -> Column | None:
    """Describe the column `id`, `label` or `pred` in SQL; None where its type is neither number nor text."""
    kind, cast = _value_type(kind), "" if key == "id" else "::VARCHAR"
    if types.is_integer(kind):
        return Column(key, f"{key}{cast}", "false")
    if types.is_floating(kind):
        return Column(key, f"{key}::BIGINT{cast}", _not_whole(key, kind), whole=True)
    if not _is_label(kind):
        return None
    return Column(
        key if _is_text(kind) else f"decode({key})", key, f"({key} = '' OR contains({key}, chr(0)))"
    )


def _not_whole(column: str, kind: pa.DataType) -> str:
    """SQL of a condition: a float is not whole, or too large to be told from the next integer."""
    limit = whole_limit(np.dtype(f"float{kind.bit_width}"))
    return f"NOT (isfinite({column}) AND {column} = trunc({column}) AND abs({column}) < {limit})"


def _error_of_unlike_parts(
    first_part: Path,
    first_types: Mapping[str, pa.DataType],
    part: Path,
    types_here: Mapping[str, pa.DataType],
) -> DataError:
    """Make the error of a part with other columns, or types of columns, than the first part."""
    differing = [key for key in COLUMNS if first_types.get(key) != types_here.get(key)]
    here, there = (kinds.get(differing[0], "is missing") for kinds in (types_here, first_types))
    return DataError(
        f"{part}: `{differing[0]}`: {here}, and in {first_part}: {there}; write the same columns and types "
        "into all parts"
    )


def _check_type(path: Path, name: str, kind: pa.DataType) -> None:
    """Raise DataError where a column of predictions is of a wrong type."""
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
    """The type of the values of a dictionary; any other type itself."""
    return kind.value_type if types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_label(kind: pa.DataType) -> bool:
    """Tell whether a type is one that labels may have: a number, text, or bytes."""
    return _is_number(kind) or bool(_is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def _decode(column: pa.Array) -> pa.Array:
    """Decode a column that is stored as a dictionary; any other column is returned as it is."""
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def _empty_rows(file: parquet.ParquetFile, name: str) -> list[int]:
    """Find the rows in which a column is empty, counted from 0; the column is read again."""
    is_empty = [
        _decode(batch.column(name)).is_null().to_numpy(False)
        for batch in file.iter_batches(BATCH, columns=[name])
    ]
    return np.flatnonzero(np.concatenate(is_empty)).tolist()


def _to_array(path: Path, name: str, column: pa.Array) -> NDArray[Any]:
    """Convert a column without empty cells to (N,) numbers or to (N,) objects of text.

    Raises:
        DataError: bytes are not UTF-8.
    """
    if _is_number(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    try:
        text = [v.decode("utf-8") if isinstance(v, bytes) else v for v in column.to_pylist()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: `{name}` is not UTF-8 ({error.reason}); write integers or text") from error
    return as_objects(text)


def _flatten(path: Path, name: str, column: pa.Array, start: int) -> tuple[NDArray[np.int64], pa.Array]:
    """Flatten a column of lists.

    Args:
        path: of the file, for messages.
        name: of the column.
        column: n lists.
        start: the row of the first list in the file, for messages.

    Returns:
        The (n,) lengths of the lists, and their items one after another.

    Raises:
        DataError: an item is empty.
    """
    if types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(column.offsets.to_numpy())
    items = _decode(column.flatten())
    if items.null_count:
        row_of_item = np.repeat(np.arange(len(column)), lengths)
        rows = np.unique(row_of_item[items.is_null().to_numpy(False)]) + start
        raise DataError(
            f"{path}: `{name}` holds empty items in {len(rows)} rows ({rows_named(rows.tolist())}); fill them"
        )
    return lengths, items


class _Logits:
    """Stacks lists of logits to an (N, C) array, batch by batch.

    Args:
        path: of the file, for messages.
        rows: N.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self.values: NDArray[Any] | None = None

    def add(self, column: pa.Array, start: int) -> None:
        """Add a batch whose first row is `start`; DataError for an empty item or another length."""
        lengths, items = _flatten(self.path, "logits", column, start)
        flat = items.to_numpy(zero_copy_only=False)
        if self.values is None:
            self.values = np.empty((self.rows, int(lengths[0])), dtype=flat.dtype)
        if (lengths != self.values.shape[1]).any():
            raise DataError(f"{self.path}: rows of `logits` are of different lengths; write (N, C)")
        self.values[start : start + len(lengths)] = flat.reshape(len(lengths), self.values.shape[1])


class _Classes:
    """Keeps the class list of the first row, and notes the rows whose list differs, batch by batch.

    Args:
        path: of the file, for messages.
        rows: how many it has.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self.names: NDArray[np.str_] | None = None
        self.differing: list[int] = []

    def add(self, column: pa.Array, start: int) -> None:
        """Add a batch whose first row is `start`; DataError for an empty item or a name that is no text."""
        lengths, items = _flatten(self.path, "classes", column, start)
        if self.names is None:
            first_list = items[: int(lengths[0])]
            self.names = as_text(_to_array(self.path, "classes", first_list), "classes", str(self.path))
        is_same = lengths == len(self.names)
        if is_same.all() and is_same.size:
            # Names are compared as numbers, so that a thousand names in each row take little memory. Two
            # codes of Arrow may be one name, such as 0.0 and -0.0, so each code gets the number of its name.
            coded = items.dictionary_encode()
            name_of_code = as_text(
                _to_array(self.path, "classes", coded.dictionary), "classes", str(self.path)
            ).tolist()
            number = {name: i for i, name in enumerate(name_of_code)}
            number_of_code = np.array([number[name] for name in name_of_code], dtype=np.int64)
            wanted = np.array([number.get(name, -1) for name in self.names.tolist()])
            numbers = number_of_code[coded.indices.to_numpy(zero_copy_only=False)]
            is_same = (numbers.reshape(len(lengths), len(wanted)) == wanted).all(axis=1)
        self.differing += (np.flatnonzero(~is_same) + start).tolist()

    def check(self) -> None:
        """Raise DataError where a row has another class list than the first."""
        if self.differing:
            raise DataError(
                f"{self.path}: {len(self.differing)} of {self.rows} cells of `classes` differ from the first "
                f"({rows_named(self.differing)}); write the same list in each row"
            )
