"""The source of slices: flip tables of parts of the test set, by columns of files or derived columns."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.pairing.confusion import Confusion
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.evaluation.reading.table import quoted
from mptctl.evaluation.reading.workspace import current
from mptctl.evaluation.slices.derived_columns import SIZE, DerivedColumns
from mptctl.files.explained import shown

T = TypeVar("T")
# What a derived column needs, for the error that it is not there.
NEEDS = {SIZE: "pictures of a run"}
# Chosen: a column with more different values holds ids or measurements, and makes no slices.
MOST_SLICES = 10_000
# Chosen: a query names up to so many ids one by one; more ids are put into a table.
FEW_IDS = 1_000
# Chosen: most crossings, and columns in all of them, of one pass. DuckDB marks the columns of a group by the
# 64 bits of one number.
MOST_KEYS, MOST_COLUMNS = 100, 60
# Cells of the flip table by (OLD is right, NEW is right).
CELLS = {
    (True, True): "both_right",
    (True, False): "negative_flips",
    (False, True): "positive_flips",
    (False, False): "both_wrong",
}


@dataclass(frozen=True)
class Slice:
    """The part of the test set with certain values in some columns.

    Attributes:
        by: the value in each column; empty for samples without a value.
        counts: the flip table, over samples of old classes.
    """

    by: Mapping[str, str]
    counts: Counts


def slice_name(by: Mapping[str, str]) -> str:
    """Name a slice by its columns and values, such as ``country=de``, each cut to a moderate length.

    An empty value reads ``(empty)``.
    """
    return ", ".join(f"{shown(column)}={shown(value) or '(empty)'}" for column, value in by.items())


class SliceSource:
    """The samples of a comparison, with the columns by which slices are asked for.

    Args:
        own: the answers of both models, and the columns that are derived from them.
        files: where columns are looked for, in this order; the first file that has a column is used.
        keys: keys of slices, each one column or a crossing of several, with the flag that asks for it, for
            messages.

    Raises:
        DataError: a column that no file has, or that both a file and the comparison have; a file that cannot
            be read or lacks samples.
        UsageError: too many keys or columns.
    """

    def __init__(
        self, own: DerivedColumns, files: Sequence[Path], keys: Mapping[tuple[str, ...], str]
    ) -> None:
        self.answers, self._own = own.answers, own
        self.keys = list(keys)
        self._flag = {column: flag for key, flag in keys.items() for column in key}
        self._sides: list[SideTable] = []
        # SQL of a table of ids, by the ids.
        self._id_tables: dict[tuple[str, ...], str] = {}
        # SQL of the value of each column, and of the joins that it needs.
        self._value: dict[str, str] = {}
        self._joins = ""
        columns = dict.fromkeys(column for key in self.keys for column in key)
        if len(self.keys) > MOST_KEYS or len(columns) > MOST_COLUMNS:
            raise UsageError(
                f"{next(iter(keys.values()))}: slices by {len(self.keys):,} crossings of {len(columns):,} "
                f"columns; at most {MOST_KEYS} crossings of {MOST_COLUMNS} columns are counted; name fewer"
            )
        self._find_columns(
            list(columns), {file: side_headers(file) for file in dict.fromkeys(files)} if columns else {}
        )

    def _find_columns(self, columns: Sequence[str], headers: Mapping[Path, list[str]]) -> None:
        """Set the SQL of some columns: derived ones, or those of the first file that has the column.

        Args:
            columns: that are wanted.
            headers: the columns of each file.

        Raises:
            DataError: nothing has a column, or both a file and the comparison have it; a file lacks samples.
        """
        of_files: dict[Path, list[str]] = {}
        derived: dict[str, str] = {}
        for column in columns:
            files = [file for file, names in headers.items() if column in names]
            if column in self._own.reserved or (column in self._own.names and not files):
                if files:
                    raise DataError(
                        f"{self._flag[column]} {column}: is the {column} that the comparison knows, and a "
                        f"column of {files[0]}; rename that"
                    )
                derived[column] = self._flag[column]
            elif not files:
                raise no_such_column(
                    self._flag[column], headers, column, self._own.names, NEEDS.get(column, "")
                )
            else:
                of_files.setdefault(files[0], []).append(column)
        self._value, self._joins = self._own.relations(derived)
        for i, (file, names) in enumerate(of_files.items()):
            side = SideTable(file, names)
            side.check_complete(
                f"(SELECT id::VARCHAR AS id FROM {self.answers.pairing.join.relations['old']})"
            )
            self._sides.append(side)
            self._joins += f" JOIN {side.relation} AS side{i} ON side{i}.id = old.id::VARCHAR"
            self._value |= {name: f"side{i}.s{k}" for k, name in enumerate(names)}

    @property
    def _samples(self) -> str:
        """SQL: all samples, with the columns joined."""
        return f"{self.answers.pairing.join.joined}{self._joins}"

    @property
    def _of_old(self) -> str:
        """SQL of a condition: a sample is of an old class."""
        return f"old.label IN ({_values_in_sql(sorted(self.answers.old_classes))})"

    @property
    def _old_samples(self) -> str:
        """SQL: the samples of old classes; `` AND ...`` may follow."""
        return f"{self._samples} WHERE {self._of_old}"

    @property
    def _rows_read(self) -> int:
        """The number of rows that a query of the samples reads, for progress."""
        return len(self.answers.pairing) * (1 + len(self._sides))

    @cached_property
    def slices(self) -> dict[tuple[str, ...], list[Slice]]:
        """All slices of each key, sorted by value, counted in one pass over the samples of old classes.

        Raises:
            UsageError: a key has more than `MOST_SLICES` slices.
        """
        columns = list(self._value)
        # By key, and by the values in its columns, the cells of the flip table.
        tables: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, int]]] = {key: {} for key in self.keys}
        # The mask of a row has a bit for each column, the first column's the highest. The bit is 0 where the
        # row is of a group by this column.
        bits = {column: 1 << (len(columns) - 1 - i) for i, column in enumerate(columns)}
        keys_of_mask: dict[int, list[tuple[str, ...]]] = {}
        for key in self.keys:
            mask = sum(bit for column, bit in bits.items() if column not in key)
            keys_of_mask.setdefault(mask, []).append(key)
        for mask, old_right, new_right, n, *values in self._count_groups(columns) if columns else ():
            for key in keys_of_mask[mask]:
                of_key = tuple(values[columns.index(column)] for column in key)
                table = tables[key].setdefault(of_key, dict.fromkeys(Counts.model_fields, 0))
                table[CELLS[old_right, new_right]] += n
        for key, slices in tables.items():
            if len(slices) > MOST_SLICES:
                raise UsageError(
                    f"{self._flag[key[0]]} {','.join(key)}: more than {MOST_SLICES:,} different values; "
                    "choose columns of fewer, or write bands of them into --metadata FILE"
                )
        return {
            key: [
                Slice(dict(zip(key, of_key, strict=True)), Counts(**table))
                for of_key, table in sorted(slices.items())
            ]
            for key, slices in tables.items()
        }

    def _count_groups(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Count the samples of old classes in groups by the columns of each key.

        Args:
            columns: the columns of all keys.

        Returns:
            Rows of the mask of `grouping`, True where OLD is right, True where NEW is right, the number of
            samples, and the value in each column; the value is None where the row is not of its group.
        """
        names = {column: f"v{i}" for i, column in enumerate(columns)}
        # Keys with the same columns in another order are one group, which must be asked for only once.
        groups = dict.fromkeys(tuple(sorted(names[column] for column in key)) for key in self.keys)
        sets = ", ".join(f"({', '.join(['o', 'n', *group])})" for group in groups)
        values = ", ".join(f"{self._value[column]} AS {names[column]}" for column in columns)
        which = ", ".join(names.values())
        return current().fetch(
            f"SELECT grouping({which}), o, n, count(*), {which} FROM (SELECT old.pred = old.label AS o, "
            f"new.pred = new.label AS n, {values} FROM {self._old_samples}) GROUP BY GROUPING SETS ({sets}) "
            f"LIMIT {4 * MOST_SLICES * len(self.keys) + 1}",
            "counting slices",
            self._rows_read,
        )

    @cached_property
    def _by_values(self) -> dict[frozenset[tuple[str, str]], Slice]:
        """All slices of all keys, by their columns and values."""
        return {frozenset(each.by.items()): each for slices in self.slices.values() for each in slices}

    def find(self, by: Mapping[str, str]) -> Slice | None:
        """Find the slice with these values by column; None where it has no sample of an old class."""
        return self._by_values.get(frozenset(by.items()))

    def flips_in(self, every: Sequence[Mapping[str, str]]) -> list[frozenset[str]]:
        """Find the ids of the negative flips in each of some slices, given by their values by column."""
        flipped = self.answers.pairing.join.flipped
        return self._in_slices(
            every, "list(old.id::VARCHAR)", flipped, lambda rows: frozenset(rows[0][0] if rows else ())
        )

    def confusions_in(self, every: Sequence[Mapping[str, str]]) -> list[Confusion]:
        """Count the old model's answers by class in each of some slices, given by their values by column.

        Classes and answers are places in the vocabulary.
        """
        place = {name: i for i, name in enumerate(self.answers.pairing.vocabulary)}

        def count(rows: Sequence[tuple[Any, ...]]) -> Confusion:
            pairs = [(place[label], place[answer], n) for label, answer, n in rows]
            return Confusion(*np.array(pairs, dtype=np.int64).reshape(-1, 3).T)

        return self._in_slices(every, "old.label, old.pred, count(*)", "true", count)

    def _in_slices(
        self,
        every: Sequence[Mapping[str, str]],
        chosen: str,
        condition: str,
        make: Callable[[Sequence[tuple[Any, ...]]], T],
    ) -> list[T]:
        """Query the samples of old classes in each of some slices, given by their values by column.

        There is one query for all slices by the same columns.

        Args:
            every: the slices.
            chosen: SQL of what is selected; the rest is grouped by what is no aggregate.
            condition: SQL of a condition on samples.
            make: makes the result of a slice of its rows, which may be none. It is called once for a slice
                that is asked for several times.
        """
        # Each slice as its columns, sorted, and its values in them.
        parted = [(tuple(sorted(by)), tuple(by[column] for column in sorted(by))) for by in every]
        # By columns, the wanted values in them, each with a number.
        wanted: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for columns, values in parted:
            numbers = wanted.setdefault(columns, {})
            numbers.setdefault(values, len(numbers))
        made: dict[tuple[tuple[str, ...], tuple[str, ...]], T] = {}
        for columns, numbers in wanted.items():
            rows = self._rows_by_values(columns, list(numbers), chosen, condition)
            made |= {(columns, values): make(rows.get(number, [])) for values, number in numbers.items()}
        return [made[key] for key in parted]

    def _rows_by_values(
        self, columns: tuple[str, ...], wanted: Sequence[tuple[str, ...]], chosen: str, condition: str
    ) -> dict[int, list[tuple[Any, ...]]]:
        """Query the samples of old classes with certain values in some columns.

        Args:
            columns: the columns.
            wanted: the values in these columns.
            chosen, condition: as in `_in_slices`.

        Returns:
            The rows by place in `wanted`; nothing where there is no row.
        """
        work = current()
        values = {f"v{i}": [each[i] for each in wanted] for i in range(len(columns))}
        relation = work.register({"number": np.arange(len(wanted)), **values})
        matched = " AND ".join(f"w.v{i} = {self._value[column]}" for i, column in enumerate(columns))
        rows = work.fetch(
            f"SELECT w.number, {chosen} FROM {self._samples} JOIN {relation} AS w ON {matched} "
            f"WHERE {self._of_old} AND {condition} GROUP BY ALL",
            "reading slices",
            self._rows_read,
        )
        work.drop_later(f"DROP VIEW IF EXISTS {relation}")
        by_number: dict[int, list[tuple[Any, ...]]] = {}
        for number, *row in rows:
            by_number.setdefault(number, []).append(tuple(row))
        return by_number

    def flips_among(self, ids: Sequence[str]) -> list[str]:
        """Find the negative flips among some ids, at least one; sorted."""
        rows = current().fetch(
            f"SELECT old.id::VARCHAR FROM {self._old_samples} AND {self.answers.pairing.join.flipped} "
            f"AND {self._has_id_or_values(ids, None)} ORDER BY 1",
            "reading flips",
            self._rows_read,
        )
        return [row[0] for row in rows]

    def values(self, ids: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, str]]:
        """Read the values of negative flips in some of the columns.

        Args:
            ids: of negative flips. If they are very many, others may be in the result, too.
            columns: of the keys.

        Returns:
            Values by id and column; empty where there are no ids or no columns.
        """
        if not ids or not columns:
            return {}
        # With very many ids it is cheaper to read all flips than to name each id in the query.
        among = f" AND old.id::VARCHAR IN ({_values_in_sql(ids)})" if len(ids) <= FEW_IDS else ""
        chosen = ", ".join(f"{self._value[column]}::VARCHAR" for column in columns)
        rows = current().fetch(
            f"SELECT old.id::VARCHAR, {chosen} FROM {self._old_samples} AND "
            f"{self.answers.pairing.join.flipped}{among}",
            "reading flips",
            self._rows_read,
        )
        return {sample: dict(zip(columns, values, strict=True)) for sample, *values in rows}

    def count_samples(self, ids: Sequence[str], by: Mapping[str, str] | None) -> tuple[int, int]:
        """Count the samples of old classes with one of some ids or in a slice, and how many OLD gets right.

        Args:
            ids: of samples; may be empty if there is a slice.
            by: the slice, by its values; None: no slice.
        """
        rows = current().fetch(
            f"SELECT count(*), count(*) FILTER (old.pred = old.label) FROM {self._old_samples} AND "
            f"{self._has_id_or_values(ids, by)}"
        )
        return int(rows[0][0]), int(rows[0][1])

    def _has_id_or_values(self, ids: Sequence[str], by: Mapping[str, str] | None) -> str:
        """SQL of a condition: a sample has one of some ids, or all values of a slice."""
        parts = [f"old.id::VARCHAR IN ({self._ids_in_sql(ids)})"] if ids else []
        if by is not None:
            parts.append(
                " AND ".join(f"{self._value[column]} = {quoted(value)}" for column, value in by.items())
            )
        return f"({' OR '.join(f'({part})' for part in parts)})"

    def _ids_in_sql(self, ids: Sequence[str]) -> str:
        """SQL that may follow ``IN``: the ids one by one, or if they are many a query of a table of them.

        The table is kept for the next call, and dropped with this object.
        """
        if len(ids) <= FEW_IDS:
            return _values_in_sql(ids)
        key = tuple(ids)
        if key not in self._id_tables:
            self._id_tables[key] = current().register({"name": list(key)})
            weakref.finalize(self, current().drop_later, f"DROP VIEW IF EXISTS {self._id_tables[key]}")
        return f"SELECT name FROM {self._id_tables[key]}"

    def unknown_ids(self, ids: Sequence[str]) -> list[str]:
        """Find the ids that no sample has."""
        relation = self.answers.pairing.join.relations["old"]
        rows = current().fetch(
            f"SELECT id::VARCHAR FROM {relation} WHERE id::VARCHAR IN ({self._ids_in_sql(ids)})"
        )
        return _without(ids, rows)

    def ids_of_new_classes(self, ids: Sequence[str]) -> list[str]:
        """Find the ids that no sample of an old class has, among them ids that no sample has at all."""
        rows = current().fetch(
            f"SELECT old.id::VARCHAR FROM {self._old_samples} AND {self._has_id_or_values(ids, None)}"
        )
        return _without(ids, rows)


def _without(ids: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the ids, in their order, that are the first value of no row."""
    in_rows = {row[0] for row in rows}
    return [sample for sample in ids if sample not in in_rows]


def _values_in_sql(values: Sequence[str]) -> str:
    """SQL that may follow ``IN`` in brackets: the values as text; NULL where there are none."""
    return ", ".join(map(quoted, values)) or "NULL"
