"""The scan of predictions that stay in their files: DuckDB checks and counts them in two passes.

The scan does not judge what is unusual. It returns None, and the file is read row by row by the reader of its
form, which either accepts it or says what is wrong with which row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import LONGEST_VALUE, too_long
from mptctl.evaluation.reading.table import FileTable, IdKind, sample_step
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

# Most different labels, or answers, of one model: ten times the classes of the largest public data set.
MOST_NAMES = 250_000


@dataclass(frozen=True)
class Scanned:
    """Predictions that were checked and counted, and not read into memory.

    Attributes:
        table: stays in its files.
        classes: the class list, which is the same in all rows; None where there is none.
    """

    table: FileTable
    classes: list[Any] | None


@dataclass(frozen=True)
class Column:
    """A column of a file, in SQL.

    Attributes:
        native: the column as it is in the file; the scan reads it under the name `id`, `label` or `pred`.
        value: the value that is compared, from the column of this name.
        wrong: a condition that is true for an invalid value.
        whole: True where the column holds floats, of which `value` makes integers.
    """

    native: str
    value: str
    wrong: str
    whole: bool = False


class SideColumns(NamedTuple):
    """Ids and some further columns of one file, in SQL.

    Attributes:
        source: a relation.
        values: the id, and then each column, as text; all are columns of `source`.
        view: a view that the caller drops after reading; empty where there is none.
    """

    source: str
    values: list[str]
    view: str = ""


def scan_rows(
    name: str, source: str, rows: int, columns: Mapping[str, Column], id_kind: IdKind, *, has_classes: bool
) -> Scanned | None:
    """Check all rows, and count their labels and predictions, in two passes.

    Args:
        name: of the files, for progress and messages.
        source: SQL: a relation of `row`, `id`, `label`, `pred`, and with `has_classes` of `classes`.
        rows: how many rows it has, at least one.
        columns: `id`, `label` and `pred`.
        id_kind: what the ids are.
        has_classes: True where rows have lists of classes.

    Returns:
        The predictions; None where a row is unusual or cannot be read.

    Raises:
        DataError: there are more than `MOST_NAMES` different labels or predictions, or one is very long.
        StorageError: more memory is needed than the workspace may take.
    """
    import duckdb

    work, what = current(), f"reading {name}"
    ids = columns["id"]
    ids_query = (
        f"SELECT count(id), count(*) FILTER ({ids.wrong}), "
        f"list({ids.value}::VARCHAR) FILTER (row % {sample_step(rows)} = 0) FROM {source}"
    )
    try:
        (present, wrong, sample), *_ = work.fetch(ids_query, what, rows)
        names = work.fetch(_query_names(source, columns), what, rows)
        lists = work.fetch(f"SELECT DISTINCT classes FROM {source} LIMIT 2") if has_classes else []
    except duckdb.Error:
        return None
    if present < rows or wrong:
        return None
    if has_classes and (len(lists) != 1 or not _is_plain_list(lists[0][0])):
        return None
    counts = {"label": Counter[str](), "pred": Counter[str]()}
    for key, text, n, is_wrong in names:
        if text is None or is_wrong is not False:
            return None
        if len(text) > LONGEST_VALUE:
            raise too_long(Path(name), key, len(text))
        counts[key][str(int(float(text))) if columns[key].whole else text] += n
    for key, count_by_name in counts.items():
        if len(count_by_name) > MOST_NAMES:
            raise DataError(
                f"{name}: `{key}` holds more than {MOST_NAMES:,} different values "
                f"({shown(min(count_by_name))}); write classes"
            )
    values = ", ".join(f"{column.value} AS {key}" for key, column in columns.items())
    labels, answers = (Counter(dict(sorted(counts[key].items()))) for key in ("label", "pred"))
    table = FileTable(
        f"(SELECT row, {values} FROM {source})", rows, id_kind, labels, answers, sorted(sample), name
    )
    return Scanned(table, lists[0][0] if has_classes else None)


def _query_names(source: str, columns: Mapping[str, Column]) -> str:
    """SQL: `label` or `pred`, each of its values as text, how many rows have it, and whether it is wrong."""
    label, pred = columns["label"], columns["pred"]
    # Both are counted in one pass: `kind` is 0 in groups of labels, 1 in groups of predictions.
    return (
        "SELECT CASE kind WHEN 0 THEN 'label' ELSE 'pred' END, "
        "CASE kind WHEN 0 THEN label::VARCHAR ELSE pred::VARCHAR END, n, wrong FROM "
        "(SELECT grouping(label) AS kind, label, pred, count(*) AS n, "
        f"CASE grouping(label) WHEN 0 THEN {label.wrong} ELSE {pred.wrong} END AS wrong "
        f"FROM {source} GROUP BY GROUPING SETS ((label), (pred)) LIMIT {2 * MOST_NAMES + 1})"
    )


def _is_plain_list(cell: object) -> bool:
    """Tell whether a cell is a list with only text and integers in it."""
    return isinstance(cell, list | tuple) and all(type(item) in (str, int) for item in cell)
