"""Reads tables of pictures, CSV or Parquet: a path and a label a row, perhaps part, id and more columns."""

from __future__ import annotations

import csv
import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from mptctl.data.listing.labelled_rows import (
    ANY,
    LabelledRows,
    classify_rows,
    labels_as_text,
    read_class_names,
)
from mptctl.data.listing.listing import Listing
from mptctl.errors import DataError, UsageError, did_you_mean, one_line, some
from mptctl.names import ColumnRole

# The roles of columns; `--column ROLE=NAME` names the column where its name is not the role.
ROLES = get_args(ColumnRole)


def list_table(
    place: Path, root: Path | None, columns: Mapping[str, str], *, labelled: bool = True
) -> Listing:
    """List all rows of a table; no picture is opened. A row without a path below the root has a problem.

    Args:
        place: the table; Parquet if its suffix says so, else CSV.
        root: folder that pictures have to lie below; None: they may lie anywhere, and paths stay as they are.
        columns: name of the column of a role, for roles whose column has another name.
        labelled: False ignores labels and parts, and makes all rows one class.

    Raises:
        UsageError: ``columns`` names a column that the table does not have.
        DataError: the table cannot be read, or has no column of paths or of labels; or as in `classify_rows`.
    """
    is_parquet = place.suffix.lower() == ".parquet"
    cells, lines = _read_parquet(place) if is_parquet else _read_csv(place)
    needed = ("path", "label") if labelled else ("path",)
    column_of = find_role_columns(columns, list(cells), place, needed=needed)
    texts = {
        role: ["" if cell is None else str(cell) for cell in cells[name]] for role, name in column_of.items()
    }
    paths, problems = texts["path"], dict[int, str]()
    if labelled:
        texts["label"], problems = labels_as_text(cells[column_of["label"]])
    for row, text in enumerate(paths):
        if not text.strip():
            problems[row] = "its path is empty"
        elif root is None:
            continue
        elif "://" in text:
            problems[row] = f"is an address; fetch the pictures first with mptctl pack {place} OUT"
        elif (below := path_below(text, root)) is None:
            problems[row] = f"lies outside {root}; name a folder above it with --data-root"
        else:
            paths[row] = below
    described = f"{place}: {'row' if is_parquet else 'line'}"
    rows = LabelledRows(
        ids=texts.get("id", paths),
        labels=texts["label"] if labelled else [ANY] * len(paths),
        parts=[word.strip().lower() for word in texts.get("split", [])] if labelled else [],
        where=lambda row: f"{described} {lines[row]}",
        problems=problems,
    )
    known = read_class_names(place.parent) if labelled else None
    found = {"path": paths, "line": lines} | ({"id": texts["id"]} if "id" in texts else {})
    further = {name: column for name, column in cells.items() if name not in column_of.values()}
    class_names, table = classify_rows(rows, known, str(place), found, further)
    return Listing("table", root or place.parent, class_names, table, place=described)


def find_role_columns(
    columns: Mapping[str, str],
    there: Sequence[str],
    what: object,
    needed: Sequence[str] = ("path", "label"),
    roles: Sequence[str] = ROLES,
) -> dict[str, str]:
    """Find the column of each role. A role has the column that ``columns`` names, else the one called as it.

    Args:
        columns: column names by role, as ``--column`` gives them.
        there: the columns of the table.
        what: the table, for messages.
        needed: roles that must have a column.
        roles: all roles.

    Returns:
        Column names by role; a role without a column is left out.

    Raises:
        UsageError: ``columns`` names a column that is not there.
        DataError: a needed role has no column.
    """
    for role, name in columns.items():
        if name not in there:
            raise UsageError(
                f"--column {role}={name}: {what} has no such column{did_you_mean(name, there)}; "
                f"it has {some(there, 8)}"
            )
    wanted = {role: columns.get(role, role) for role in roles}
    named = {role: name for role, name in wanted.items() if name in there}
    if missing := [role for role in needed if role not in named]:
        raise DataError(
            f"{what}: has no column called {missing[0]}; it has {some(there, 8)}; name the one that is it "
            f"with --column {missing[0]}=NAME"
        )
    return named


def holds_pictures(path: Path) -> bool:
    """Tell whether a Parquet file has a column of encoded pictures, by its schema.

    The column is of bytes, or of records with a field ``bytes``. False where the file cannot be read.
    """
    from pyarrow import parquet

    try:
        kinds = [str(kind) for kind in parquet.read_schema(path).types]
    except Exception:  # of many kinds; reading the whole file later says what is wrong
        return False
    return any("binary" in kind or "bytes:" in kind for kind in kinds)


def path_below(text: str, root: Path) -> str | None:
    """Return a path relative to a folder, normalised; None where it is the folder itself or leaves it."""
    # `relpath` takes thirty times as long, and only such paths may leave the folder.
    may_leave = os.path.isabs(text) or ".." in text
    below = os.path.relpath(os.path.join(root, text), root) if may_leave else posixpath.normpath(text)
    return None if below in ("..", ".") or below.startswith("../") else below


def _read_csv(path: Path) -> tuple[dict[str, Sequence[Any]], Sequence[int]]:
    """Read a CSV file with a header; empty lines are left out.

    Returns:
        The cells of each column by name, and the number of the line on which each row ends, from 1.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or damaged, or two columns have one name.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, None)
            if header is None:
                raise DataError(f"{path}: is empty; write a header and a line a picture")
            if len(header) == 1 and ";" in header[0]:
                raise DataError(f"{path}: is separated by semicolons; write commas")
            if len(set(header)) < len(header):
                raise DataError(f"{path}: has two columns of one name; rename all but one")
            rows, line_numbers = [], []
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise DataError(
                        f"{path}: line {reader.line_num} has {len(row)} fields and the header {len(header)}; "
                        "repair it"
                    )
                rows.append(row)
                line_numbers.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}; repair it") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return {name: [row[column] for row in rows] for column, name in enumerate(header)}, line_numbers


def _read_parquet(path: Path) -> tuple[dict[str, Sequence[Any]], Sequence[int]]:
    """Read a Parquet file.

    Returns:
        The cells of each column by name, and the number of each row, from 1.

    Raises:
        DataError: the file cannot be read.
    """
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        cells = {name: table.column(name).to_pylist() for name in table.column_names}
        return cells, range(1, len(table) + 1)
    except Exception as error:  # of many kinds, as with every damaged file
        raise DataError(
            f"{path}: cannot be read as Parquet ({one_line(error)[:120]}); write it anew"
        ) from error
