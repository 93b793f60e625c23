"""Predictions in a CSV file: every cell is text, every row has the header's fields."""

from __future__ import annotations

import ast
import csv
import json
import mmap
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import COLUMNS, SWELLING, check_headers, class_names, first
from mptctl.evaluation.reading.scan import Column, Scanned, SideColumns, scan_rows
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, from_cell_sql
from mptctl.evaluation.reading.table import IdKind, file_in_sql
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

# An integer of 64 bits as we write it: no plus, no zeros before it.
CANONICAL = "0|-?[1-9][0-9]{0,17}"
# NULs, and blanks beside quotes, which DuckDB drops and we keep.
UNPLAIN = (b"\0", b' "', b'\t"', b'" ', b'"\t')


def read(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a predictions file by name: text, logits (N, C) in double precision, and one class list.

    Raises:
        DataError: text that is not UTF-8, NULs, a column that stands there twice, rows with another number of
            fields than the header, lists that are none, and class lists that differ.
        csv.Error: quotes that do not match.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        # The limit of Python's reader is 128 kB a field: too little for the logits of 10,000 classes.
        before = csv.field_size_limit(sys.maxsize)
        try:
            return _Table(path, csv.reader(_lines_without_nul(file, path), strict=True)).read()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
        finally:
            csv.field_size_limit(before)


def _lines_without_nul(file: IO[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise DataError(f"{path}: line {number} holds a NUL; write it again as text")
        yield line


def headers(path: Path) -> list[str]:
    """The names of the columns; csv.Error or UnicodeDecodeError where there are none."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, strict=True), [])


def memory_needed(path: Path) -> int:
    """Bytes that `read` takes."""
    return SWELLING * path.stat().st_size


def side_columns(path: Path, columns: Sequence[str]) -> SideColumns:
    """Ids and further columns as DuckDB reads them; those of a list of flips without `as_cell`."""
    header = headers(path)
    cells = [f"c{header.index(column)}" for column in ("id", *columns)]
    if header[: len(FLIP_COLUMNS)] == [*FLIP_COLUMNS]:
        cells = [from_cell_sql(cell) for cell in cells]
    return SideColumns(_in_sql(path, len(header)), cells)


def scan(name: str, parts: Sequence[Path]) -> Scanned | None:
    """Looks through sound predictions without logits, which become a table of DuckDB.

    Args:
        name: what the parts together are called.
        parts: the files.

    Returns:
        None where there are logits, or anything that asks for a second look.

    Raises:
        DataError: a column that stands in a file twice, or very many different classes.
        StorageError: more memory is needed than the workspace may take.
    """
    work = current()
    table, scanned = work.name(), None
    try:
        columns = _load(table, parts)
        rows = work.fetch(f"SELECT count(*) FROM {table}")[0][0] if columns else 0
        if rows:
            scanned = scan_rows(
                name,
                f"(SELECT rowid AS row, * FROM {table})",
                rows,
                {key: Column(key, key, f"contains({key}, chr(0))") for key in ("id", "label", "pred")},
                _id_kind(table),
                has_classes="classes" in columns,
            )
    finally:
        if scanned is None:
            work.fetch(f"DROP TABLE IF EXISTS {table}")
    if scanned is not None:
        weakref.finalize(scanned.table, work.drop_later, f"DROP TABLE IF EXISTS {table}")
    return scanned


def _load(table: str, parts: Sequence[Path]) -> list[str]:
    """Reads our columns into a table; gives their names, or none where parts need a second look."""
    work, loaded = current(), list[str]()
    for part in parts:
        header = _plain_header(part)
        check_headers(part, header)
        places = {key: header.index(key) for key in COLUMNS if key in header}
        if not {"id", "label", "pred"} <= places.keys() or "logits" in places:
            return []
        if loaded and loaded != [*places]:
            return []
        chosen = ", ".join(f"c{place} AS {key}" for key, place in places.items())
        begin = f"INSERT INTO {table}" if loaded else f"CREATE TABLE {table} AS"
        loaded = [*places]
        try:
            work.fetch(
                f"{begin} SELECT {chosen} FROM {_in_sql(part, len(header))}",
                f"reading {part}",
                max(1, part.stat().st_size // 32),
            )
        except duckdb.Error:
            return []
    return loaded


def _in_sql(path: Path, width: int) -> str:
    """SQL: a table of so many columns, c0 and so on, as text."""
    kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width))
    return (
        f"read_csv({file_in_sql(path)}, columns={{{kinds}}}, auto_detect=false, header=true, delim=',', "
        "quote='\"', escape='\"', strict_mode=true)"
    )


def _plain_header(part: Path) -> list[str]:
    """The names of the columns; none where the file needs a second look."""
    with part.open("rb") as file:
        if not file.seek(0, 2):
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if any(content.find(mark) >= 0 for mark in UNPLAIN):
                return []
    try:
        return headers(part)
    except (UnicodeDecodeError, csv.Error):
        return []


def _id_kind(table: str) -> IdKind:
    """Either, where every id is an integer as we write it: looked through only where the first one is."""
    work = current()
    first_id = work.fetch(f"SELECT id FROM {table} LIMIT 1")[0][0]
    if first_id is None or not re.fullmatch(CANONICAL, first_id):
        return "text"
    query = f"SELECT bool_and(regexp_full_match(id, '{CANONICAL}')) FROM {table}"
    return "either" if work.fetch(query)[0][0] else "text"


class _Table:
    """Our columns of a table, in one pass over its rows; logits become numbers at once."""

    def __init__(self, path: Path, reader: Any) -> None:
        self.path = path
        self.reader = reader
        header: list[str] = next(reader, [])
        check_headers(path, header)
        self.width = len(header)
        self.place = {name: header.index(name) for name in COLUMNS if name in header}
        self.wrong: list[str] = []  # rows with another number of fields
        self.other: list[str] = []  # rows whose class list is another one
        self.cell = ""
        self.names: tuple[str, ...] = ()

    def read(self) -> dict[str, NDArray[Any]]:
        cells: dict[str, list[str]] = {name: [] for name in self.place if name not in ("logits", "classes")}
        logits: list[NDArray[np.float64]] = []
        rows = 0
        for row in self.reader:
            # A blank line is no row.
            if not row or (self.width > 1 and len(row) == 1 and not row[0].strip()):
                continue
            if len(row) != self.width:
                self.wrong.append(f"line {self.reader.line_num} has {len(row)}")
                continue
            rows += 1
            for name, column in cells.items():
                column.append(row[self.place[name]])
            if "logits" in self.place:
                logits.append(self._read_logits(row[self.place["logits"]]))
            if "classes" in self.place:
                self._check_classes(row[self.place["classes"]], rows == 1)
        if self.wrong:
            raise DataError(
                f"{self.path}: {len(self.wrong)} rows have other than the {self.width} fields of the header "
                f"({first(self.wrong)}); write one field per column"
            )
        if self.other:
            raise DataError(
                f"{self.path}: {len(self.other)} cells of `classes` differ from the first "
                f"({first(self.other)}); write the same list in each row"
            )
        columns: dict[str, NDArray[Any]] = {
            name: np.array(column, dtype=object) for name, column in cells.items()
        }
        if rows and "logits" in self.place:
            columns["logits"] = self._stack_logits(logits)
        if rows and "classes" in self.place:
            columns["classes"] = np.array(self.names, dtype=object)
        return columns

    def _read_logits(self, cell: str) -> NDArray[np.float64]:
        try:
            values = json.loads(cell)
        except (ValueError, RecursionError):
            values = None
        # An integer beyond 2^53 has no double of its own.
        if (
            not isinstance(values, list)
            or not set(map(type, values)) <= {int, float}
            or any(type(v) is int and abs(v) > 2**53 for v in values)
        ):
            raise DataError(
                f"{self.path}: line {self.reader.line_num}: `logits` is no list of numbers ({shown(cell)}); "
                "write JSON such as [0.5, 1.25]"
            )
        return np.array(values, dtype=np.float64)

    def _stack_logits(self, rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{self.path}: rows of `logits` are of different lengths; write (N, C)")
        return np.stack(rows)

    def _check_classes(self, cell: str, is_first: bool) -> None:
        """Keep the class list of the first row; of later rows note those of another one."""
        if cell == self.cell and not is_first:
            return
        names = self._read_class_list(cell)
        if is_first:
            self.cell, self.names = cell, names
        elif names != self.names:
            self.other.append(f"line {self.reader.line_num}")

    def _read_class_list(self, cell: str) -> tuple[str, ...]:
        where = f"{self.path}: line {self.reader.line_num}"
        values: Any = None
        for read in (json.loads, ast.literal_eval):  # a list as JSON writes it, or as Python does
            try:
                values = read(cell)
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        if not isinstance(values, list | tuple) or not values:
            raise DataError(f'{where}: `classes` is no list of names ({shown(cell)}); write ["cat", "dog"]')
        return class_names(values, where)
