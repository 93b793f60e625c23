"""Further columns of samples, such as country or customer, from predictions files or a file beside them."""

from __future__ import annotations

import difflib
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError, option
from mptctl.evaluation.reading.agreement import error_of_repeated_ids
from mptctl.evaluation.reading.columns import as_labels, explaining, first, integers
from mptctl.evaluation.reading.readers import Content, find_parts, form_of
from mptctl.evaluation.reading.workspace import current
from mptctl.files.explained import shown

COLUMNS = Content("table of samples", "name a file with `id` and the columns")


class SideTable:
    """Some columns of a file by id, read into a table of the current workspace; an empty cell is empty text.

    Args:
        path: a file, a pattern, or a folder of parts, of a form that predictions may have.
        columns: the columns that are read; each must be in every part.

    Attributes:
        relation: SQL: the table, dropped with this object: `id`, and the columns as `s0`, `s1`, ..., as text.

    Raises:
        DataError: the file cannot be read, or holds an id twice.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        work = current()
        self.path = path
        self.relation = work.name()
        self._cells = [f"s{i}" for i in range(len(columns))]
        cells_as_text = [f"coalesce({cell}::VARCHAR, '') AS {cell}" for cell in self._cells]
        as_text = ", ".join(["id::VARCHAR AS id", *cells_as_text])
        for part in find_parts(path, COLUMNS):
            start = 0
            with explaining(part), closing(form_of(part).batches(part, ["id", *columns])) as batches:
                for batch in batches:
                    ids = as_labels(batch["id"], "id", str(part), start)
                    cells = [ids, *(batch[column] for column in columns)]
                    rows = pa.Table.from_arrays(cells, names=["id", *self._cells])
                    work.append(self.relation, rows, as_text)
                    start += len(rows)
        weakref.finalize(self, work.drop_later, f"DROP TABLE IF EXISTS {self.relation}")
        count, ids = work.count_ids(f"SELECT id FROM {self.relation} GROUP BY id HAVING count(*) > 1")
        if count:
            raise error_of_repeated_ids(str(path), count, first(ids))

    def values_of(self, samples: str, n: int) -> list[tuple[NDArray[np.int32], tuple[str, ...]]]:
        """Read each column for some samples.

        Args:
            samples: SQL: a relation of `id` and `number`, from 0, of N samples.
            n: N.

        Returns:
            For each column, (N,) numbers of values, in the order of the samples, and the values.

        Raises:
            DataError: a sample has no row in this table.
        """
        joined = current().table(
            f"SELECT number, {', '.join(self._cells)} FROM {samples} AS t "
            f"JOIN {self.relation} AS s ON s.id = t.id::VARCHAR"
        )
        if len(joined) < n:
            self._refuse_lacking(samples)
        numbers = integers(joined["number"].combine_chunks())
        found = []
        for cell in self._cells:
            coded = joined[cell].combine_chunks().dictionary_encode()
            codes = np.empty(n, dtype=np.int32)
            codes[numbers] = integers(coded.indices)
            found.append((codes, tuple(coded.dictionary.to_pylist())))
        return found

    def _refuse_lacking(self, samples: str) -> None:
        """Raise DataError on the samples that have no row in the table."""
        count, ids = current().count_ids(
            f"SELECT t.id FROM {samples} AS t ANTI JOIN {self.relation} AS s ON s.id = t.id::VARCHAR"
        )
        raise DataError(
            f"{self.path}: lacks {count} ids of the test set ({first(ids)}); write a row for each sample, "
            "with the id as it stands in the predictions"
        )


def side_headers(path: Path) -> list[str]:
    """Read the names of the columns that every part of a file has, in the order of the first part.

    Raises:
        DataError: a part cannot be read, has no column `id`, or has two columns whose names differ at most in
            case.
        UsageError: a part has an ending that cannot be read.
    """
    common: list[str] | None = None
    for part in find_parts(path, COLUMNS):
        with explaining(part):
            names = form_of(part).headers(part)
        # DuckDB does not distinguish upper and lower case in names of columns.
        lower = Counter(name.lower() for name in names)
        repeated = sorted({name for name in names if lower[name.lower()] > 1})
        if repeated:
            raise DataError(f"{part}: columns of one name ({first(repeated)}); rename all but one")
        if "id" not in names:
            raise DataError(f"{part}: no column is called `id`; name the one with the samples' ids so")
        common = names if common is None else [name for name in common if name in names]
    return common or []


def no_such_column(
    flag: str, headers: Mapping[Path, Sequence[str]], column: str, own: Sequence[str] = ()
) -> DataError:
    """Make the error of a column that is nowhere, with the most similar name.

    Args:
        flag: that names the column.
        headers: the columns of each file.
        column: the name that was asked for.
        own: columns that there are without a file.
    """
    in_files = [name for names in headers.values() for name in names]
    close = difflib.get_close_matches(column, [*own, *in_files], 1)
    nearest = f" (nearest: {shown(close[0])})" if close else ""
    there = [f"{file} has {first(names)}" for file, names in headers.items()]
    there += [f"always there: {', '.join(own)}"] if own else []
    return DataError(
        f"{flag} {shown(column)}: no such column{nearest}; {'; '.join(there) or 'there is no file'}; "
        f"correct the name, or add the column in {option('metadata')} FILE"
    )
