"""Predictions that DuckDB reads where they lie: checked in two passes, and never held in memory.

What is not plain is not decided here: a scan that gives None leaves the file to its reader, which says what
is wrong with which row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mptctl.errors import DataError
from mptctl.evaluation.reading.table import FileTable, IdKind, sample_step
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

# Distinct labels or answers of one model: ten times the classes of the largest public data set.
MOST_NAMES = 250_000


@dataclass(frozen=True)
class Scanned:
    """A table that stays where it is, and the class list of its rows."""

    table: FileTable
    classes: list[Any] | None


@dataclass(frozen=True)
class Column:
    """A column in SQL.

    Attributes:
        native: as it is read.
        value: what is made of the column that is read under its name.
        wrong: a condition that is true for an invalid row.
        whole: it holds floats, which are made integers.
    """

    native: str
    value: str
    wrong: str
    whole: bool = False


class SideColumns(NamedTuple):
    """Some columns of one file as DuckDB finds them.

    Attributes:
        source: SQL: a relation.
        values: SQL of the id and of each column in it, as text.
        view: to be dropped when it is read; empty where there is none.
    """

    source: str
    values: list[str]
    view: str = ""


def scan_rows(
    name: str, source: str, rows: int, columns: Mapping[str, Column], id_kind: IdKind, *, has_classes: bool
) -> Scanned | None:
    """Check rows and count their labels and predictions, in two passes.

    Args:
        name: of the files, for whoever watches.
        source: SQL: `row`, `id`, `label`, `pred`, and `classes` where it has them, as they are read.
        rows: how many, at least one.
        columns: `id`, `label` and `pred`.
        id_kind: what the ids are.
        has_classes: there are lists of classes.

    Returns:
        None where a row needs a second look.

    Raises:
        DataError: there are too many different labels or predictions.
    """
    import duckdb

    work, what = current(), f"reading {name}"
    ids, label, pred = columns["id"], columns["label"], columns["pred"]
    ids_query = (
        f"SELECT count(id), count(*) FILTER ({ids.wrong}), "
        f"list({ids.value}::VARCHAR) FILTER (row % {sample_step(rows)} = 0) FROM {source}"
    )
    # Both columns are counted in one pass: `kind` is 0 in the groups of labels, 1 in those of predictions.
    names_query = (
        "SELECT CASE kind WHEN 0 THEN 'label' ELSE 'pred' END, "
        "CASE kind WHEN 0 THEN label::VARCHAR ELSE pred::VARCHAR END, n, wrong FROM "
        "(SELECT grouping(label) AS kind, label, pred, count(*) AS n, "
        f"CASE grouping(label) WHEN 0 THEN {label.wrong} ELSE {pred.wrong} END AS wrong "
        f"FROM {source} GROUP BY GROUPING SETS ((label), (pred)) LIMIT {2 * MOST_NAMES + 1})"
    )
    try:
        (present, wrong, sample), *_ = work.fetch(ids_query, what, rows)
        names = work.fetch(names_query, what, rows)
        lists = work.fetch(f"SELECT DISTINCT classes FROM {source} LIMIT 2") if has_classes else []
    except duckdb.Error:
        return None
    if present < rows or wrong or (has_classes and not (len(lists) == 1 and _is_plain_list(lists[0][0]))):
        return None
    counts = {"label": Counter[str](), "pred": Counter[str]()}
    for key, text, n, is_wrong in names:
        if text is None or is_wrong is not False:
            return None
        counts[key][str(int(float(text))) if columns[key].whole else text] += n
    for key, found in counts.items():
        if len(found) > MOST_NAMES:
            raise DataError(
                f"{name}: `{key}` holds more than {MOST_NAMES:,} different values ({shown(min(found))}); "
                "write classes"
            )
    values = ", ".join(f"{column.value} AS {key}" for key, column in columns.items())
    labels, answers = (Counter(dict(sorted(found.items()))) for found in counts.values())
    table = FileTable(
        f"(SELECT row, {values} FROM {source})", rows, id_kind, labels, answers, sorted(sample), name
    )
    return Scanned(table, lists[0][0] if has_classes else None)


def _is_plain_list(cell: object) -> bool:
    """Tell whether a cell is a list of text and integers alone; the reader of rows takes other lists."""
    return isinstance(cell, list | tuple) and all(type(item) in (str, int) for item in cell)
