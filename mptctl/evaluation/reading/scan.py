"""Predictions that DuckDB reads where they lie: checked in two passes, and never held in memory.

What is not plain is not decided here: a scan that gives None leaves the file to its reader, which says what is
wrong with which row.
"""

from __future__ import annotations

import csv
import glob
import mmap
import re
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptctl.errors import DataError, one_line
from mptctl.evaluation.reading.columns import COLUMNS, check_headers
from mptctl.evaluation.reading.table import FileTable, IdKind, quoted, sample_step
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

if TYPE_CHECKING:
    import pyarrow as pa

# Distinct labels or answers of one model: ten times the classes of the largest public data set.
MOST_NAMES = 250_000
# An integer of 64 bits as we write it: no plus, no zeros before it.
CANONICAL = "0|-?[1-9][0-9]{0,17}"
# Columns that DuckDB's reader of Parquet makes of itself, by which rows are told apart here.
OF_THE_READER = frozenset({"filename", "file_index", "file_row_number"})
# In a CSV: NULs, and blanks beside quotes, which DuckDB drops and we keep.
UNPLAIN = (b"\0", b' "', b'\t"', b'" ', b'"\t')


@dataclass(frozen=True)
class Scanned:
    """A table that stays where it is, the class list of its rows, and the names of all its columns."""

    table: FileTable
    classes: list[Any] | None
    headers: tuple[str, ...]


@dataclass(frozen=True)
class _Column:
    """A column in SQL: as it is read, what we make of the column of its name, and what must hold for no row."""

    native: str
    value: str
    wrong: str


def scan(name: str, parts: Sequence[Path]) -> Scanned | None:
    """Look through sound predictions without logits.

    Args:
        name: what the parts together are called.
        parts: files of one form.

    Returns:
        None where there are logits, or anything that asks for a second look.

    Raises:
        DataError: parts whose columns are not the same, a file that is damaged, or very many different classes.
        StorageError: more memory is needed than the workspace may take.
    """
    scanner = _SCANNERS.get(parts[0].suffix.lower())
    return None if scanner is None else scanner(name, parts)


def _scan_parquet(name: str, parts: Sequence[Path]) -> Scanned | None:
    from pyarrow import parquet

    fields: dict[str, pa.DataType] = {}
    starts: list[int] = []
    rows = 0
    headers: tuple[str, ...] = ()
    for part in parts:
        try:
            with parquet.ParquetFile(part) as file:
                schema, n = file.schema_arrow, file.metadata.num_rows
        except Exception as error:  # a dozen types, as with every damaged file
            detail = shown(one_line(error), 200)
            raise DataError(f"{part}: cannot be read as parquet ({detail}); write it again") from error
        found = {key: schema.field(key).type for key in COLUMNS if schema.names.count(key) == 1}
        # DuckDB tells no upper case from lower case in names of columns, and has some of its own.
        lower = [header.lower() for header in schema.names]
        if sum(header in COLUMNS for header in lower) != len(found) or "logits" in found:
            return None
        if not OF_THE_READER.isdisjoint(lower):
            return None
        if starts and found != fields:
            raise _unlike(parts[0], fields, part, found)
        fields, headers = found, tuple(schema.names)
        starts.append(rows)
        rows += n
    columns = {key: _parquet_column(key, fields[key]) for key in ("id", "label", "pred") if key in fields}
    sound: dict[str, _Column] = {key: column for key, column in columns.items() if column is not None}
    if len(sound) < 3 or not rows:
        return None
    files = ", ".join(quoted(glob.escape(str(part.resolve()))) for part in parts)
    row = "file_row_number" if len(parts) == 1 else f"({starts})[file_index + 1] + file_row_number"
    natives = ", ".join(f"{column.native} AS {key}" for key, column in sound.items())
    classes = ", classes" if "classes" in fields else ""
    read = f"(SELECT {row} AS row, {natives}{classes} FROM read_parquet([{files}], hive_partitioning=false))"
    values = ", ".join(f"{column.value} AS {key}" for key, column in sound.items())
    kind: IdKind = "integers" if _is_number(fields["id"]) else "text"
    table = FileTable(f"(SELECT row, {values} FROM {read})", rows, kind, Counter(), Counter(), [], name)
    return _checked(table, read, sound, bool(classes), headers)


def _parquet_column(key: str, kind: pa.DataType) -> _Column | None:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    cast = "" if key == "id" else "::VARCHAR"
    if types.is_integer(kind):
        return _Column(key, f"{key}{cast}", "false")
    if types.is_floating(kind):
        return _Column(key, f"{key}::BIGINT{cast}", not_whole(key, kind.bit_width))
    if types.is_string(kind) or types.is_large_string(kind):
        return _Column(key, key, f"({key} = '' OR contains({key}, chr(0)))")
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _Column(f"decode({key})", key, f"({key} = '' OR contains({key}, chr(0)))")
    return None


def not_whole(column: str, bits: int) -> str:
    """SQL: whether a float of so many bits is no whole number that its type tells from its neighbours."""
    limit = {16: 2**11, 32: 2**24, 64: 2**53}[bits]
    return f"NOT (isfinite({column}) AND {column} = trunc({column}) AND abs({column}) < {limit})"


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _unlike(first: Path, wanted: dict[str, Any], part: Path, found: dict[str, Any]) -> DataError:
    for key in COLUMNS:
        if wanted.get(key) != found.get(key):
            one, other = (str(kinds.get(key, "is missing")) for kinds in (wanted, found))
            return DataError(
                f"{part}: `{key}`: {other}, and in {first}: {one}; write the same columns and types into all parts"
            )
    return DataError(f"{part}: columns unlike those of {first}")


def _scan_csv(name: str, parts: Sequence[Path]) -> Scanned | None:
    work = current()
    table, found = work.name(), None
    try:
        headers = _load_csv(table, parts)
        rows = work.fetch(f"SELECT count(*) FROM {table}")[0][0] if headers else 0
        if headers and rows:
            columns = {key: _Column(key, key, f"contains({key}, chr(0))") for key in ("id", "label", "pred")}
            source = f"(SELECT rowid AS row, * FROM {table})"
            select = f"(SELECT row, id, label, pred FROM {source})"
            made = FileTable(select, rows, _csv_kind(table), Counter(), Counter(), [], name)
            found = _checked(made, source, columns, "classes" in headers, headers)
    finally:
        if found is None:
            work.fetch(f"DROP TABLE IF EXISTS {table}")
    if found is not None:
        weakref.finalize(found.table, work.drop_later, f"DROP TABLE IF EXISTS {table}")
    return found


def _load_csv(table: str, parts: Sequence[Path]) -> tuple[str, ...] | None:
    """The names of all columns of the first part; None where a part, or all together, need a second look."""
    import duckdb

    work = current()
    headers: tuple[str, ...] = ()
    for part in parts:
        header = _plain_header(part)
        check_headers(part, header)
        places = {key: header.index(key) for key in COLUMNS if key in header}
        if not {"id", "label", "pred"} <= places.keys() or "logits" in places:
            return None
        if headers and ("classes" in headers) != ("classes" in places):
            return None
        kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header)))
        chosen = ", ".join(f"c{place} AS {key}" for key, place in sorted(places.items()))
        query = (
            f"SELECT {chosen} FROM read_csv({quoted(glob.escape(str(part.resolve())))}, columns={{{kinds}}}, "
            "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', strict_mode=true)"
        )
        begin = f"INSERT INTO {table}" if headers else f"CREATE TABLE {table} AS"
        headers = headers or tuple(header)
        try:
            work.fetch(f"{begin} {query}", f"reading {part}", max(1, part.stat().st_size // 32))
        except duckdb.Error:
            return None
    return headers


def _plain_header(part: Path) -> list[str]:
    """The names of the columns; none where the file needs a second look."""
    with part.open("rb") as file:
        if not file.seek(0, 2):
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if any(content.find(mark) >= 0 for mark in UNPLAIN):
                return []
    try:
        with part.open(encoding="utf-8-sig", newline="") as text:
            return next(csv.reader(text, strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        return []


def _csv_kind(table: str) -> IdKind:
    """Whether every id is an integer as we write it: looked through only where the first one is."""
    work = current()
    first = work.fetch(f"SELECT id FROM {table} LIMIT 1")
    if not first or first[0][0] is None or not re.fullmatch(CANONICAL, first[0][0]):
        return "text"
    query = f"SELECT bool_and(regexp_full_match(id, '{CANONICAL}')) FROM {table}"
    return "either" if work.fetch(query)[0][0] else "text"


def _checked(
    table: FileTable,
    source: str,
    columns: dict[str, _Column],
    has_classes: bool,
    headers: tuple[str, ...],
) -> Scanned | None:
    """The table with what its rows hold, by two passes over them; None where a row needs a second look."""
    import duckdb

    work, what = current(), f"reading {table.files}"
    ids, label, pred = columns["id"], columns["label"], columns["pred"]
    try:
        (present, wrong, sample), *_ = work.fetch(
            f"SELECT count(id), count(*) FILTER ({ids.wrong}), "
            f"list({ids.value}::VARCHAR) FILTER (row % {sample_step(table.rows)} = 0) FROM {source}",
            what,
            table.rows,
        )
        names = work.fetch(
            f"SELECT kind, label::VARCHAR, pred::VARCHAR, n, wrong FROM (SELECT grouping(label) AS kind, "
            f"label, pred, count(*) AS n, "
            f"CASE WHEN grouping(label) = 0 THEN {label.wrong} ELSE {pred.wrong} END AS wrong "
            f"FROM {source} GROUP BY GROUPING SETS ((label), (pred)) LIMIT {2 * MOST_NAMES + 1})",
            what,
            table.rows,
        )
        lists = work.fetch(f"SELECT DISTINCT classes FROM {source} LIMIT 2") if has_classes else []
    except duckdb.Error:
        return None
    if (
        present < table.rows
        or wrong
        or any(found[4] is not False or found[1 + found[0]] is None for found in names)
    ):
        return None
    if has_classes and not (len(lists) == 1 and _is_plain_list(lists[0][0])):
        return None
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for kind, truth, answer, n, _ in names:
        counts[kind][_plain_number(answer if kind else truth, pred if kind else label)] += n
    for key, found in zip(("label", "pred"), counts, strict=True):
        if len(found) > MOST_NAMES:
            raise DataError(
                f"{table.files}: `{key}` holds more than {MOST_NAMES:,} different values ({shown(min(found))}); "
                "write classes"
            )
    full = replace(
        table,
        labels=Counter(dict(sorted(counts[0].items()))),
        answers=Counter(dict(sorted(counts[1].items()))),
        sample=sorted(sample),
    )
    return Scanned(full, lists[0][0] if has_classes else None, headers)


def _is_plain_list(cell: object) -> bool:
    """Whether a cell is a list of text or of integers: of other lists the reader knows what to make."""
    return isinstance(cell, list | tuple) and len({type(item) for item in cell} | {str, int}) == 2


def _plain_number(text: str, column: _Column) -> str:
    """A float that is whole as the integer that `_Column.value` makes of it."""
    return str(int(float(text))) if "BIGINT" in column.value else text


_SCANNERS: dict[str, Callable[[str, Sequence[Path]], Scanned | None]] = {
    ".parquet": _scan_parquet,
    ".csv": _scan_csv,
}
