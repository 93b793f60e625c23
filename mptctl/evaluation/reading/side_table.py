"""Further columns of samples, such as country or customer, from predictions files or a file beside them."""

from __future__ import annotations

import difflib
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mptctl.errors import DataError, MptctlError, option
from mptctl.evaluation.reading.columns import NAMED, first, unreadable
from mptctl.evaluation.reading.readers import find_parts, form_of
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
            try:
                found = form_of(part).side_columns(part, self.columns)
                values = [f"coalesce({value}, '') AS s{i}" for i, value in enumerate(found.values[1:])]
                work.fetch(
                    f"{begin.format(self.relation)} SELECT {found.values[0]} AS id, {', '.join(values)} "
                    f"FROM {found.source}",
                    f"reading {part}",
                )
            except MptctlError:
                raise
            except Exception as error:  # a dozen types, as with every damaged file
                raise unreadable(part, error) from error
            begin = "INSERT INTO {}"
            if found.view:
                work.drop_later(f"DROP VIEW IF EXISTS {found.view}")
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
                f"{self.path}: lacks {lacking[0][0]} ids of the test set "
                f"({first([row[1] for row in lacking])}); write a row for each sample, with the id as it "
                "stands in the predictions"
            )


def side_headers(path: Path) -> list[str]:
    """The columns that every part of a file has.

    Raises:
        DataError: it cannot be read, or a part has a name twice or no ids. UsageError: an ending that cannot
            be read.
    """
    found: list[str] | None = None
    for part in find_parts(path):
        try:
            names = form_of(part).headers(part)
        except Exception as error:  # a dozen types, as with every damaged file
            raise unreadable(part, error) from error
        lower = Counter(name.lower() for name in names)
        if twice := sorted({name for name in names if lower[name.lower()] > 1}):
            # DuckDB tells no upper case from lower case in names of columns.
            raise DataError(f"{part}: columns of one name ({first(twice)}); rename all but one")
        if "id" not in names:
            raise DataError(f"{part}: no column is called `id`; name the one with the samples' ids so")
        found = names if found is None else [name for name in found if name in names]
    return found or []


def no_such_column(
    asked: str, there: Mapping[Path, Sequence[str]], column: str, own: Sequence[str] = (), needs: str = ""
) -> DataError:
    """The error of a column that nothing has.

    Args:
        asked: the flag that names it.
        there: the columns of each file.
        column: its name.
        own: columns that there are without a file.
        needs: what the column would need.
    """
    in_files = [name for names in there.values() for name in names]
    close = difflib.get_close_matches(column, [*own, *in_files], 1)
    hints = [f" (nearest: {shown(close[0])})"] if close else []
    hints += [f" (it needs {needs})"] if needs else []
    found = [f"{file} has {first(names)}" for file, names in there.items()]
    found += [f"always there: {', '.join(own)}"] if own else []
    return DataError(
        f"{asked} {shown(column)}: no such column{''.join(hints)}; {'; '.join(found) or 'there is no file'}; "
        f"correct the name, or add the column in {option('metadata')} FILE"
    )
