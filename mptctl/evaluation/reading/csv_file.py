"""Predictions in a CSV file: every cell is text, and every row must have as many fields as the header."""

from __future__ import annotations

import ast
import codecs
import csv
import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import (
    LONGEST_VALUE,
    class_names,
    first,
    integers,
    refuse_other_classes,
    too_long,
)
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, WRITTEN_FORMULA
from mptctl.files.explained import shown

# Bytes that are read at once; no cell may be longer.
BLOCK = 2**25
_WRONG_QUOTE = 'has a quote that does not match; put the whole cell in quotes, with "" for a quote in it'
# Bytes that may stand before an opening quote and after a closing one. Of the two quotes that stand for one
# within a cell, the first counts as closing and the second as opening, so each has a quote beside it.
_BESIDE_QUOTES = np.frombuffer(b',"\r\n', np.uint8)


def headers(path: Path) -> list[str]:
    """Read the names of the columns; DataError or csv.Error where the first line is damaged."""
    # Bytes that are not UTF-8 are named by their line when the file is read.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        names = next(csv.reader(file, strict=True), [])
    if any("\0" in name for name in names):
        raise DataError(f"{path}: its first line holds a NUL; save the file as UTF-8")
    return names


def batches(path: Path, wanted: Sequence[str]) -> Generator[dict[str, Any]]:
    """Read some columns block by block; blank lines are skipped.

    Yields:
        Text by column; `logits` as (n, C) doubles; `classes` as the one list of all rows. Cells of a list of
        flips are without what `as_cell` put before them.

    Raises:
        DataError: bytes are wrong as `_check_bytes` says, a row has another number of fields than the header,
            a cell of `logits` or `classes` is no list, or class lists differ.
    """
    header = headers(path)
    has_quotes = _check_bytes(path)
    is_list_of_flips = header[: len(FLIP_COLUMNS)] == [*FLIP_COLUMNS]
    names = [f"c{i}" for i in range(len(header))]
    cells = [names[header.index(column)] for column in wanted]
    wrong: list[str] = []

    def skip(row: Any) -> str:
        # The number counts from 1 with the header, so it is the row's in the table, counted from 0 there.
        if row.text.strip():
            wrong.append(f"row {row.number - 1} has {row.actual_columns}")
        return "skip"

    reader = arrow_csv.open_csv(
        path,
        # Only without threads are the numbers of wrong rows known.
        arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=names),
        arrow_csv.ParseOptions(newlines_in_values=has_quotes, invalid_row_handler=skip),
        arrow_csv.ConvertOptions(include_columns=cells, column_types=dict.fromkeys(cells, pa.string())),
    )
    start = 0
    with reader:
        for index, block in enumerate(reader):
            if wrong:
                raise DataError(
                    f"{path}: {len(wrong)} rows have other than the {len(header)} fields of the header "
                    f"({first(wrong)}); write one field per column"
                )
            batch = block.slice(1) if index == 0 else block  # the first row is the header
            columns = {column: batch.column(cell) for column, cell in zip(wanted, cells, strict=True)}
            if is_list_of_flips:
                for column, text in columns.items():
                    columns[column] = pc.replace_substring_regex(text, WRITTEN_FORMULA, r"\1")
            for column in columns.keys() & {"id", "label", "pred"}:
                longest = pc.max(pc.utf8_length(columns[column])).as_py() or 0
                if longest > LONGEST_VALUE:
                    raise too_long(path, column, longest)
            if "logits" in columns:
                columns["logits"] = _stack_logits(path, columns["logits"], start)
            if "classes" in columns and len(batch):
                columns["classes"] = _common_classes(path, columns["classes"], start)
            yield columns
            start += len(batch)


def _check_bytes(path: Path) -> bool:
    """Tell whether a file has quotes.

    Raises:
        DataError: a quote does not begin or end a cell or is never closed, or the file has a NUL or is not
            UTF-8.
    """
    if not path.stat().st_size:
        return False
    content = np.memmap(path, np.uint8, "r")
    decoder = codecs.getincrementaldecoder("utf-8")()
    begin = 3 if content[:3].tobytes() == b"\xef\xbb\xbf" else 0
    quotes = 0  # so far: after an odd number of them, a cell is open
    last_quote = 0
    for start in range(begin, len(content), BLOCK):
        block = content[start : start + BLOCK]
        if not block.all():
            nul = start + int(np.argmin(block))
            raise _error_at(path, content, nul, "holds a NUL; write it again as text")
        pending = len(decoder.getstate()[0])  # bytes of a character that the last block began
        if pending or block.max() >= 128:
            try:
                decoder.decode(block.tobytes(), final=start + BLOCK >= len(content))
            except UnicodeDecodeError as error:
                problem = f"is not UTF-8 ({error.reason}); save the file as UTF-8"
                raise _error_at(path, content, start - pending + error.start, problem) from error
        found = np.flatnonzero(block == ord('"')) + start
        if found.size:
            wrong = _find_wrong_quote(content, begin, found, opens_first=quotes % 2 == 0)
            if wrong is not None:
                raise _error_at(path, content, wrong, _WRONG_QUOTE)
            quotes += len(found)
            last_quote = int(found[-1])
    if quotes % 2:
        raise _error_at(path, content, last_quote, _WRONG_QUOTE)
    return quotes > 0


def _find_wrong_quote(
    content: NDArray[np.uint8], begin: int, quotes: NDArray[np.int64], *, opens_first: bool
) -> int | None:
    """Find the first quote that stands neither at the begin nor at the end of a cell; None if there is none.

    Args:
        content: all bytes of the file.
        begin: index of the first byte after the byte order mark.
        quotes: (n,) indices of the quotes, in order; opening and closing ones take turns.
        opens_first: whether the first of them is an opening one.
    """
    opens = np.arange(len(quotes)) % 2 == (0 if opens_first else 1)
    beside = np.where(opens, quotes - 1, quotes + 1)
    at_edge = (beside < begin) | (beside == len(content))
    # The remainder keeps an index beyond an edge, which is right anyway, within the array.
    is_right = at_edge | np.isin(content[beside % len(content)], _BESIDE_QUOTES)
    return None if is_right.all() else int(quotes[~is_right][0])


def _error_at(path: Path, content: NDArray[np.uint8], index: int, problem: str) -> DataError:
    """Make the error of one byte of a file, which names its line."""
    line = 1 + int(np.count_nonzero(content[:index] == ord("\n")))
    return DataError(f"{path}: line {line} {problem}")


def _stack_logits(path: Path, cells: pa.Array, start: int) -> NDArray[np.float64]:
    """Read n cells of `logits`, after `start` others, to (n, C); DataError where lengths differ."""
    numbered = enumerate(cells.to_pylist(), start + 1)
    rows = [_read_logits(f"{path}: row {number}", cell) for number, cell in numbered]
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"{path}: rows of `logits` are of different lengths; write (N, C)")
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1)


def _common_classes(path: Path, cells: pa.Array, start: int) -> tuple[str, ...]:
    """Read the list of classes in n cells, after `start` others; DataError where another list differs."""
    coded = cells.dictionary_encode()  # each different text is parsed once
    text_of_row = integers(coded.indices)
    lists = [
        _read_class_list(f"{path}: row {start + int(np.argmax(text_of_row == i)) + 1}", cell)
        for i, cell in enumerate(coded.dictionary.to_pylist())
    ]
    is_other = np.array([names != lists[0] for names in lists])
    refuse_other_classes(str(path), np.flatnonzero(is_other[text_of_row]).tolist(), start)
    return lists[0]


def _read_logits(where: str, cell: str) -> list[float]:
    """Read the logits of a cell; DataError where it is no JSON list of numbers."""
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = None
    # An integer beyond 2^53 may have no double of its own.
    if not isinstance(values, list) or not all(
        type(value) is float or (type(value) is int and abs(value) <= 2**53) for value in values
    ):
        raise DataError(
            f"{where}: `logits` is no list of numbers ({shown(cell)}); write JSON such as [0.5, 1.25]"
        )
    return values


def _read_class_list(where: str, cell: str) -> tuple[str, ...]:
    """Read a list of classes, as JSON or as Python writes it; DataError where the cell is no list."""
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
