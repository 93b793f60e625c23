"""Pictures as a table, in CSV or Parquet: a path and a label a row, perhaps part, id and further columns."""

from __future__ import annotations

import csv
import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from mptctl.data.listing.labelled_rows import ANY, LabelledRows
from mptctl.errors import DataError, UsageError, did_you_mean, one_line, some
from mptctl.names import ColumnRole

# The columns that a table has, or may have; `--column ROLE=NAME` says which is which under other names.
ROLES = get_args(ColumnRole)


class Table(NamedTuple):
    """The rows of a table.

    Attributes:
        rows: ids, labels and parts.
        paths: below the root, with ``/`` between folders; as they stand there where a row is bad, or without
            a root.
        has_ids: the ids come from a column; else they are the paths.
        further: by name, every column but path, label, split and id, one value for each row.
    """

    rows: LabelledRows
    paths: list[str]
    has_ids: bool
    further: dict[str, Sequence[Any]]


def read_table(path: Path, root: Path | None, columns: Mapping[str, str], *, labelled: bool = True) -> Table:
    """Read all rows of a table; no picture is looked for.

    Args:
        path: of the table.
        root: folder that paths are below; None: they lie anywhere, and stay as they are.
        columns: names of columns by their roles, where they are other ones.
        labelled: without it labels and parts are not looked at, and all rows are of one class.

    Raises:
        UsageError: a column that is named and is not there.
        DataError: it cannot be read, or lacks path or label.
    """
    cells, lines = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    unit = "row" if isinstance(lines, range) else "line"
    named = name_roles(columns, list(cells), path, ("path", "label") if labelled else ("path",))
    paths = [_text(cell) for cell in cells[named["path"]]]
    problems: dict[int, str] = {}
    for row, text in enumerate(paths):
        below = text if root is None else path_below(text, root)
        if not text.strip():
            problems[row] = "its path is empty"
        elif below is None:
            problems[row] = f"{text}: lies outside {root}; name a folder above it with --data-root"
        else:
            paths[row] = below
    has_ids, has_parts = "id" in named, labelled and "split" in named
    taken = {named[role] for role in ("path", "label", "split", "id") if role in named}
    rows = LabelledRows(
        ids=[_text(cell) for cell in cells[named["id"]]] if has_ids else paths,
        labels=[_text(cell) for cell in cells[named["label"]]] if labelled else [ANY] * len(paths),
        parts=[_text(cell).strip().lower() for cell in cells[named["split"]]] if has_parts else [],
        where=lambda row: f"{path}: {unit} {lines[row]}",
        problems=problems,
    )
    return Table(rows, paths, has_ids, {name: column for name, column in cells.items() if name not in taken})


def name_roles(
    columns: Mapping[str, str],
    there: Sequence[str],
    what: object,
    needed: Sequence[str] = ("path", "label"),
) -> dict[str, str]:
    """The column of each role that a table has.

    Args:
        columns: names by roles, as they were asked for.
        there: the columns.
        what: the table, for messages.
        needed: roles without which it is no table of pictures.
    """
    for role, name in columns.items():
        if name not in there:
            raise UsageError(
                f"--column {role}={name}: {what} has no such column{did_you_mean(name, there)}; "
                f"it has {some(there, 8)}"
            )
    named = {role: columns.get(role, role) for role in ROLES if columns.get(role, role) in there}
    if missing := [role for role in needed if role not in named]:
        raise DataError(
            f"{what}: has no column called {missing[0]}; it has {some(there, 8)}; name the one that is it "
            f"with --column {missing[0]}=NAME"
        )
    return named


def holds_pictures(path: Path) -> bool:
    """Tell whether a Parquet file has a column of bytes, or of bytes and paths; False where it is none."""
    from pyarrow import parquet

    try:
        kinds = [str(kind) for kind in parquet.read_schema(path).types]
    except Exception:  # of many kinds; what is wrong is said by whoever reads it whole
        return False
    return any("binary" in kind or "bytes:" in kind for kind in kinds)


def path_below(text: str, root: Path) -> str | None:
    """A path relative to a folder, without detours; None where it leaves the folder."""
    below = posixpath.normpath(os.path.relpath(text, root) if os.path.isabs(text) else text)
    return None if below in ("..", ".") or below.startswith("../") else below


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _read_csv(path: Path) -> tuple[dict[str, Sequence[Any]], Sequence[int]]:
    """The cells of each column by name, and the number of the line on which each row ends."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            if len(set(header)) < len(header):
                raise DataError(f"{path}: has two columns of one name; rename all but one")
            rows, numbers = [], []
            for row in lines:
                if not row:
                    continue
                if len(row) != len(header):
                    raise DataError(
                        f"{path}: line {lines.line_num} has {len(row)} fields and the header {len(header)}; "
                        "repair it"
                    )
                rows.append(row)
                numbers.append(lines.line_num)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}: line {lines.line_num}: {error}; repair it") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}, numbers


def _read_parquet(path: Path) -> tuple[dict[str, Sequence[Any]], Sequence[int]]:
    """The cells of each column by name, and the number of each row, from 1."""
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        cells = {name: table.column(name).to_pylist() for name in table.column_names}
        return cells, range(1, len(table) + 1)
    except Exception as error:  # of many kinds, as with every damaged file
        raise DataError(
            f"{path}: cannot be read as Parquet ({one_line(error)[:120]}); write it anew"
        ) from error
