"""Predictions in a CSV file: every cell is text, and every row must have as many fields as the header."""

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
from mptctl.evaluation.reading.table import CANONICAL, IdKind, file_in_sql
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

# Bytes in files that DuckDB must not read: NULs, and blanks beside quotes, which it would drop.
UNPLAIN = (b"\0", b' "', b'\t"', b'" ', b'"\t')
# An empty cell at the end of a row, before the end of a line. DuckDB drops one that is a cell too many.
EMPTY_LAST = tuple(comma + end for comma in (b",", b',""') for end in (b"\n", b"\r"))


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a predictions file, by name.

    Returns:
        (N,) text; `logits` (N, C) in double precision; `classes` (C,), the one list of all rows.

    Raises:
        DataError: text is not UTF-8 or has a NUL, a column occurs twice, a row has another number of fields
            than the header, a cell of `logits` or `classes` is no list, or class lists differ.
        csv.Error: quotes do not match.
    """
    return _read_columns(path, COLUMNS, lists=("logits", "classes"))


def _read_columns(path: Path, columns: Sequence[str], lists: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read some columns, of which `lists` hold lists; see `read`."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        # Python's reader allows 128 kB a field by default: too little for the logits of 10,000 classes.
        limit_before = csv.field_size_limit(sys.maxsize)
        try:
            rows = csv.reader(_lines_without_nul(file, path), strict=True)
            return _TableReader(path, rows, columns, lists).read()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
        finally:
            csv.field_size_limit(limit_before)


def _lines_without_nul(file: IO[str], path: Path) -> Iterator[str]:
    """Yield the lines of a file; DataError, with its number, at a line that holds a NUL."""
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise DataError(f"{path}: line {number} holds a NUL; write it again as text")
        yield line


def headers(path: Path) -> list[str]:
    """Read the names of the columns; csv.Error or UnicodeDecodeError where the first line is damaged."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, strict=True), [])


def memory_needed(path: Path) -> int:
    """Estimate the bytes of memory that `read` takes."""
    return SWELLING * path.stat().st_size


def side_columns(path: Path, columns: Sequence[str]) -> SideColumns:
    """Find the ids and further columns for DuckDB; cells of a list of flips lose what `as_cell` added.

    Raises:
        DataError, csv.Error: as `read`, of a file that DuckDB must not read.
    """
    header, wanted, view = headers(path), ["id", *columns], ""
    if _holds(path, UNPLAIN):
        texts = _read_columns(path, wanted, lists=())
        cells = [f"c{place}" for place in range(len(wanted))]
        view = current().register(
            {cell: texts[name].astype(np.str_) for cell, name in zip(cells, wanted, strict=True)}
        )
    else:
        cells = [f"c{header.index(column)}" for column in wanted]
    if header[: len(FLIP_COLUMNS)] == [*FLIP_COLUMNS]:
        cells = [from_cell_sql(cell) for cell in cells]
    return SideColumns(view or _in_sql(path, len(header)), cells, view)


def scan(name: str, parts: Sequence[Path]) -> Scanned | None:
    """Read predictions without logits into a table of DuckDB, and check them.

    Args:
        name: of all parts together, for progress and messages.
        parts: the files.

    Returns:
        The predictions; None where there are logits, or anything unusual that `read` has to judge.

    Raises:
        DataError: a file has a column twice, or there are very many different classes.
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
    """Read the columns of predictions from all parts into one new table of DuckDB.

    Returns:
        The names of the columns; empty where a part has logits, lacks a column, has other columns than the
        first, or is so unusual that `read` has to judge it. The table may exist then, too.

    Raises:
        DataError: a file has a column twice.
    """
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
                max(1, part.stat().st_size // 32),  # rows for progress, at some 32 bytes each
            )
        except duckdb.Error:
            return []
    return loaded


def _in_sql(path: Path, width: int) -> str:
    """SQL: a file as a table of text, with `width` columns named c0, c1 and so on; an empty cell is NULL.

    Reading it raises duckdb.Error where a row has another number of cells.
    """
    may_hide_a_cell = _holds(path, EMPTY_LAST, ends=(b",", b',""'))
    kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width + may_hide_a_cell))
    plain = (
        f"read_csv({file_in_sql(path)}, columns={{{kinds}}}, auto_detect=false, header=true, delim=',', "
        "quote='\"', escape='\"', strict_mode=true"
    )
    if not may_hide_a_cell:
        return f"{plain})"
    # With one column more, a cell too many is text there, and one too few is NULL in the last real column.
    # DuckDB pads rows and reads line ends in quotes only without threads. SOH stands for NULL, so that an
    # empty cell is none.
    padded = f"{plain}, null_padding=true, nullstr='\x01', parallel=false)"
    cells = ", ".join(f"nullif(c{i}, '') AS c{i}" for i in range(width))
    wrong = f"c{width} IS NOT NULL OR c{width - 1} IS NULL"
    message = f"rows have other than the {width} fields of the header; write one field per column"
    return f"(SELECT {cells} FROM {padded} WHERE CASE WHEN {wrong} THEN error('{message}') ELSE true END)"


def _holds(path: Path, marks: Sequence[bytes], ends: Sequence[bytes] = ()) -> bool:
    """Tell whether a file holds one of some marks, or ends with one of `ends`; an empty file does not."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if any(content[-len(end) :] == end for end in ends):
                return True
            return any(content.find(mark) >= 0 for mark in marks)


def _plain_header(part: Path) -> list[str]:
    """Read the names of the columns; empty where DuckDB must not read the file, or the header is damaged."""
    if not part.stat().st_size or _holds(part, UNPLAIN):
        return []
    try:
        return headers(part)
    except (UnicodeDecodeError, csv.Error):
        return []


def _id_kind(table: str) -> IdKind:
    """Tell the kind of a table's ids: ``either`` if every one is a canonical integer, else ``text``."""
    work = current()
    # With most ids that are text, the first one shows it, and the others need not be read.
    first_id = work.fetch(f"SELECT id FROM {table} LIMIT 1")[0][0]
    if first_id is None or not re.fullmatch(CANONICAL, first_id):
        return "text"
    query = f"SELECT bool_and(regexp_full_match(id, '{CANONICAL}')) FROM {table}"
    return "either" if work.fetch(query)[0][0] else "text"


class _TableReader:
    """Reads columns of a CSV file in one pass over its rows.

    Args:
        path: of the file, for messages.
        reader: of Python's csv, before the header.
        columns: those that are read, where they are there.
        lists: those of `logits` and `classes` whose cells are lists; other cells are text.

    Raises:
        DataError: the header has a column of predictions twice.
    """

    def __init__(self, path: Path, reader: Any, columns: Sequence[str], lists: Sequence[str]) -> None:
        self.path, self.reader, self.lists = path, reader, lists
        header: list[str] = next(reader, [])
        check_headers(path, header)
        self.width = len(header)
        self.place = {name: header.index(name) for name in columns if name in header}
        self.wrong_width: list[str] = []  # rows with another number of fields, in words
        self.wrong_classes: list[str] = []  # rows with another class list than the first, in words
        # The class list of the first row: its cell, and the names.
        self.class_cell, self.class_list = "", tuple[str, ...]()

    def read(self) -> dict[str, NDArray[Any]]:
        """Read all rows; blank lines are skipped. Returns and raises as the function `read`."""
        cells: dict[str, list[str]] = {name: [] for name in self.place if name not in self.lists}
        has_logits, has_classes = (
            name in self.place and name in self.lists for name in ("logits", "classes")
        )
        logits: list[NDArray[np.float64]] = []
        rows = 0
        for row in self.reader:
            is_blank = len(row) == 1 and self.width > 1 and not row[0].strip()
            if not row or is_blank:
                continue
            if len(row) != self.width:
                self.wrong_width.append(f"line {self.reader.line_num} has {len(row)}")
                continue
            rows += 1
            for name, column in cells.items():
                column.append(row[self.place[name]])
            if has_logits:
                logits.append(self._read_logits(row[self.place["logits"]]))
            if has_classes:
                self._check_classes(row[self.place["classes"]], rows == 1)
        if self.wrong_width:
            raise DataError(
                f"{self.path}: {len(self.wrong_width)} rows have other than the {self.width} fields of the "
                f"header ({first(self.wrong_width)}); write one field per column"
            )
        if self.wrong_classes:
            raise DataError(
                f"{self.path}: {len(self.wrong_classes)} cells of `classes` differ from the first "
                f"({first(self.wrong_classes)}); write the same list in each row"
            )
        columns: dict[str, NDArray[Any]] = {
            name: np.array(column, dtype=object) for name, column in cells.items()
        }
        if rows and has_logits:
            columns["logits"] = self._stack_logits(logits)
        if rows and has_classes:
            columns["classes"] = np.array(self.class_list, dtype=object)
        return columns

    def _read_logits(self, cell: str) -> NDArray[np.float64]:
        """Read the (C,) logits of a cell; DataError where it is no JSON list of numbers."""
        try:
            values = json.loads(cell)
        except (ValueError, RecursionError):
            values = None
        is_list_of_numbers = isinstance(values, list) and set(map(type, values)) <= {int, float}
        # An integer beyond 2^53 may have no double of its own.
        if not is_list_of_numbers or any(type(value) is int and abs(value) > 2**53 for value in values):
            raise DataError(
                f"{self.path}: line {self.reader.line_num}: `logits` is no list of numbers ({shown(cell)}); "
                "write JSON such as [0.5, 1.25]"
            )
        return np.array(values, dtype=np.float64)

    def _stack_logits(self, rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Stack rows of logits to (N, C); DataError where their lengths differ."""
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{self.path}: rows of `logits` are of different lengths; write (N, C)")
        return np.stack(rows)

    def _check_classes(self, cell: str, is_first: bool) -> None:
        """Keep the class list of the first row; note a later row whose list differs in `wrong_classes`."""
        if cell == self.class_cell and not is_first:
            return
        names = self._read_class_list(cell)
        if is_first:
            self.class_cell, self.class_list = cell, names
        elif names != self.class_list:
            self.wrong_classes.append(f"line {self.reader.line_num}")

    def _read_class_list(self, cell: str) -> tuple[str, ...]:
        """Read a list of classes, as JSON or as Python writes it; DataError where the cell is no list."""
        where = f"{self.path}: line {self.reader.line_num}"
        values: Any = None
        for parse in (json.loads, ast.literal_eval):
            try:
                values = parse(cell)
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        if not isinstance(values, list | tuple) or not values:
            raise DataError(f'{where}: `classes` is no list of names ({shown(cell)}); write ["cat", "dog"]')
        return class_names(values, where)
