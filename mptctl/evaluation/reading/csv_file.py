"""Predictions in a CSV file: every cell is text, every row has the header's fields."""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import COLUMNS, as_text, check_headers, first
from mptctl.files.explained import shown


def read_csv(path: Path) -> dict[str, NDArray[Any]]:
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
            return _Table(path, csv.reader(_lines(file, path), strict=True)).read()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
        finally:
            csv.field_size_limit(before)


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise DataError(f"{path}: line {number} holds a NUL; write it again as text")
        yield line


def headers_csv(path: Path) -> list[str]:
    """The names of the columns."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file), [])


class _Table:
    """One pass over the rows; only our columns are kept, and logits become numbers at once."""

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
        self.names: list[str] = []

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
                logits.append(self._numbers(row[self.place["logits"]]))
            if "classes" in self.place:
                self._check_classes(row[self.place["classes"]], rows == 1)
        if self.wrong:
            raise DataError(
                f"{self.path}: {len(self.wrong)} rows have other than the {self.width} fields of the header "
                f"({first(self.wrong)}); write one field per column"
            )
        if self.other:
            raise DataError(
                f"{self.path}: {len(self.other)} cells of `classes` differ from the first ({first(self.other)}); "
                "write the same list in each row"
            )
        columns: dict[str, NDArray[Any]] = {
            name: np.array(column, dtype=object) for name, column in cells.items()
        }
        if rows and "logits" in self.place:
            columns["logits"] = self._stacked(logits)
        if rows and "classes" in self.place:
            columns["classes"] = np.array(self.names, dtype=object)
        return columns

    def _numbers(self, cell: str) -> NDArray[np.float64]:
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

    def _stacked(self, rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{self.path}: rows of `logits` are of different lengths; write (N, C)")
        return np.stack(rows)

    def _check_classes(self, cell: str, is_first: bool) -> None:
        if cell == self.cell and not is_first:
            return
        names = self._names(cell)
        if is_first:
            self.cell, self.names = cell, names
        elif names != self.names:
            self.other.append(f"line {self.reader.line_num}")

    def _names(self, cell: str) -> list[str]:
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
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
        names: list[str] = as_text(array, "classes", where).tolist()
        return names
