"""Further columns of samples, such as country or customer, from predictions files or a file beside them."""

from __future__ import annotations

import csv
import glob
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, one_line
from mptctl.evaluation.reading.arrow import text_array
from mptctl.evaluation.reading.columns import NAMED, as_text, first
from mptctl.evaluation.reading.readers import find_parts, headers, read_columns
from mptctl.evaluation.reading.scan import not_whole
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, from_cell_sql
from mptctl.evaluation.reading.table import quoted
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown


class SideTable:
    """Some columns of a file by id; where the file has none for a sample, the value is empty.

    Args:
        path: a file, a pattern, or a folder of parts, of a form that predictions have too.
        columns: those that are wanted, all of them there.

    Attributes:
        relation: SQL: `id` as text, and `s0`, `s1`, ... as text, the columns in their order.

    Raises:
        DataError: it cannot be read, or holds an id twice.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns, work = path, list(columns), current()
        self.relation, begin = work.name(), "CREATE TABLE {} AS"
        for part in find_parts(path):
            source, names, view = _source(part, self.columns)
            values = [f"coalesce({name}, '') AS s{i}" for i, name in enumerate(names[1:])]
            try:
                work.fetch(
                    f"{begin.format(self.relation)} SELECT {names[0]} AS id, {', '.join(values)} FROM {source}",
                    f"reading {part}",
                )
            except _duckdb_error() as error:
                raise _unreadable(part, error) from error
            begin = "INSERT INTO {}"
            if view:
                work.drop_later(f"DROP VIEW IF EXISTS {view}")
        weakref.finalize(self, work.drop_later, f"DROP TABLE IF EXISTS {self.relation}")
        twice = work.fetch(
            f"SELECT count(*) OVER (), id FROM {self.relation} GROUP BY id HAVING count(*) > 1 "
            f"ORDER BY id LIMIT {NAMED}"
        )
        if twice:
            raise DataError(
                f"{path}: {twice[0][0]} ids stand there more than once ({first([row[1] for row in twice])}); "
                "keep one row each"
            )

    def check_complete(self, samples: str) -> None:
        """DataError where a sample of a SQL relation with `id` as text has no row here."""
        lacking = current().fetch(
            f"SELECT count(*) OVER (), id FROM {samples} AS t ANTI JOIN {self.relation} AS s ON s.id = t.id "
            f"ORDER BY id LIMIT {NAMED}"
        )
        if lacking:
            raise DataError(
                f"{self.path}: lacks {lacking[0][0]} ids of the test set ({first([row[1] for row in lacking])}); "
                "write a row for each sample, with the id as it stands in the predictions"
            )


def side_headers(path: Path) -> list[str]:
    """The columns that every part of a file has.

    Raises:
        DataError: it cannot be read, or a part has a name twice or no ids. UsageError: an ending that cannot be read.
    """
    found: list[str] | None = None
    for part in find_parts(path):
        try:
            names = headers(part)
        except Exception as error:  # a dozen types, as with every damaged file
            raise _unreadable(part, error) from error
        lower = Counter(name.lower() for name in names)
        if twice := sorted({name for name in names if lower[name.lower()] > 1}):
            # DuckDB tells no upper case from lower case in names of columns.
            raise DataError(f"{part}: columns of one name ({first(twice)}); rename all but one")
        if "id" not in names:
            raise DataError(f"{part}: no column is called `id`; name the one with the samples' ids so")
        found = names if found is None else [name for name in found if name in names]
    return found or []


def _source(part: Path, columns: Sequence[str]) -> tuple[str, list[str], str]:
    """SQL of a part, SQL of `id` and of each column as text, and a view to drop when it is read."""
    wanted = ["id", *columns]
    if part.suffix.lower() not in (".parquet", ".csv"):
        return _arrays(part, wanted)
    file = quoted(glob.escape(str(part.resolve())))
    if part.suffix.lower() == ".parquet":
        from pyarrow import parquet, types

        kind = parquet.read_schema(part).field("id").type
        whole = ""
        if types.is_floating(kind):
            _refuse_not_whole(part, file, kind.bit_width)
            whole = "::BIGINT"
        names = [f"{_name(column)}{whole if column == 'id' else ''}::VARCHAR" for column in wanted]
        return f"read_parquet({file}, hive_partitioning=false)", names, ""
    with part.open(encoding="utf-8-sig", newline="") as text:
        header = next(csv.reader(text), [])
    kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header)))
    source = (
        f"read_csv({file}, columns={{{kinds}}}, auto_detect=false, header=true, delim=',', quote='\"', "
        "escape='\"', strict_mode=true)"
    )
    cells = [f"c{header.index(column)}" for column in wanted]
    return source, [from_cell_sql(cell) for cell in cells] if header == [*FLIP_COLUMNS] else cells, ""


def _refuse_not_whole(part: Path, file: str, bits: int) -> None:
    """DataError where ids that are floats are no whole numbers that their type tells apart."""
    rows = current().fetch(
        f"SELECT count(*) OVER (), id::VARCHAR FROM read_parquet({file}, hive_partitioning=false) "
        f"WHERE {not_whole('id', bits)} LIMIT {NAMED}"
    )
    if rows:
        raise DataError(
            f"{part}: {rows[0][0]} values of `id` are not whole numbers that floats of {bits} bits tell apart "
            f"({first([row[1] for row in rows])}); write integers or text"
        )


def _arrays(part: Path, wanted: Sequence[str]) -> tuple[str, list[str], str]:
    import pyarrow as pa

    try:
        found = read_columns(part, wanted)
    except DataError:
        raise
    except Exception as error:  # a dozen types, as with every damaged file
        raise _unreadable(part, error) from error
    arrays = {}
    for i, column in enumerate(wanted):
        values = found[column]
        if values.ndim != 1 or len(values) != len(found["id"]):
            raise DataError(f"{part}: `{column}` has shape {values.shape}; write one value for each id")
        try:
            arrays[f"a{i}"] = text_array(_as_text(values, column, str(part)))
        except UnicodeError as error:
            raise _unreadable(part, error) from error
    work = current()
    name = work.name()
    work.connection.register(name, pa.Table.from_arrays([*arrays.values()], names=[*arrays]))
    return name, list(arrays), name


def _as_text(values: NDArray[Any], column: str, name: str) -> NDArray[np.str_]:
    if column == "id":
        return as_text(values, column, name)
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(np.str_)


def _name(column: str) -> str:
    """A name of a column as it stands in SQL."""
    return '"' + column.replace('"', '""') + '"'


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _unreadable(part: Path, error: BaseException) -> DataError:
    return DataError(f"{part}: cannot be read ({shown(one_line(error), 200)}); write it again")
