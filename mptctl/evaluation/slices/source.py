"""The flip table of parts of the test set: by columns of a file, by class, by the old model's confidence."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.evaluation.reading.table import quoted
from mptctl.evaluation.reading.workspace import current
from mptctl.evaluation.slices.derived_columns import SIZE, SUPERCLASS, DerivedColumns
from mptctl.files.explained import shown

NEEDS = {SUPERCLASS: "--superclasses FILE", SIZE: "pictures of a run"}
# Chosen: more parts than that are no slices, but ids or measurements.
MOST_SLICES = 10_000
# Chosen: ids that a query names one by one; more of them are a table.
FEW_IDS = 1_000
# Chosen: what one pass groups by. DuckDB tells groups apart by the bits of one number.
MOST_KEYS, MOST_COLUMNS = 100, 60
# Cells of the flip table by right answers of OLD and of NEW.
CELLS = {
    (True, True): "both_right",
    (True, False): "negative_flips",
    (False, True): "positive_flips",
    (False, False): "both_wrong",
}


@dataclass(frozen=True)
class Slice:
    """A part of the test set.

    Attributes:
        by: its value in each column; empty where the file has none.
        counts: its flip table, over samples of old classes.
    """

    by: Mapping[str, str]
    counts: Counts


def slice_name(by: Mapping[str, str]) -> str:
    """A slice by its values, on one line and never long; one without a value reads (empty)."""
    return ", ".join(f"{shown(column)}={shown(value) or '(empty)'}" for column, value in by.items())


class SliceSource:
    """Samples of a comparison by columns.

    Args:
        own: answers of both models, whose ids are known to match, and columns that are made of them.
        files: where columns are looked for, in this order: a file beside the predictions, those of OLD and of
            NEW.
        keys: the columns, or crossings of them, that slices are asked of, each with who asks, for messages.

    Raises:
        DataError: a column that no file has, or two could mean; a file that cannot be read or lacks samples.
    """

    def __init__(
        self, own: DerivedColumns, files: Sequence[Path], keys: Mapping[tuple[str, ...], str]
    ) -> None:
        self.answers, self._own = own.answers, own
        self.keys = list(keys)
        self._asks = {column: asks for key, asks in keys.items() for column in key}
        self._sides: list[SideTable] = []
        self._tables: dict[tuple[str, ...], str] = {}
        # SQL of each column, and of the relations that have it.
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

    def _find_columns(self, columns: Sequence[str], there: Mapping[Path, list[str]]) -> None:
        """Join what holds the columns: the comparison itself, or the first side file that has one."""
        wanted: dict[Path, list[str]] = {}
        ours: dict[str, str] = {}
        for column in columns:
            having = [file for file, names in there.items() if column in names]
            if column in self._own.reserved or (column in self._own.names and not having):
                if having:
                    raise DataError(
                        f"{self._asks[column]} {column}: is the {column} that the comparison knows, and a "
                        f"column of {having[0]}; rename that"
                    )
                ours[column] = self._asks[column]
            elif not having:
                raise no_such_column(
                    self._asks[column], there, column, self._own.names, NEEDS.get(column, "")
                )
            else:
                wanted.setdefault(having[0], []).append(column)
        self._value, self._joins = self._own.relations(ours)
        for i, (file, names) in enumerate(wanted.items()):
            side = SideTable(file, names)
            side.check_complete(
                f"(SELECT id::VARCHAR AS id FROM {self.answers.pairing.join.relations['old']})"
            )
            self._sides.append(side)
            self._joins += f" JOIN {side.relation} AS side{i} ON side{i}.id = old.id::VARCHAR"
            self._value |= {name: f"side{i}.s{k}" for k, name in enumerate(names)}

    @property
    def _samples(self) -> str:
        """SQL: the compared samples with the columns joined."""
        return f"{self.answers.pairing.join.joined}{self._joins}"

    @property
    def _of_old(self) -> str:
        """SQL: whether a sample is of an old class."""
        return f"old.label IN ({_values_in_sql(sorted(self.answers.old_classes))})"

    @property
    def _old_samples(self) -> str:
        return f"{self._samples} WHERE {self._of_old}"

    @cached_property
    def cells(self) -> dict[tuple[str, ...], list[Slice]]:
        """Every slice of each key: one pass over all samples."""
        if not self.keys:
            return {}
        columns = list(self._value)
        names = {column: f"v{i}" for i, column in enumerate(columns)}
        # Columns in two orders are one set: twice, it would count twice.
        groups = dict.fromkeys(tuple(sorted(names[c] for c in key)) for key in self.keys)
        sets = ", ".join(f"({', '.join(['o', 'n', *group])})" for group in groups)
        values = ", ".join(f"{self._value[column]} AS {names[column]}" for column in columns)
        which = ", ".join(names.values())
        most = 4 * MOST_SLICES * len(self.keys)
        rows = current().fetch(
            f"SELECT grouping({which}), o, n, count(*), {which} FROM (SELECT old.pred = old.label AS o, "
            f"new.pred = new.label AS n, {values} FROM {self._old_samples}) GROUP BY GROUPING SETS ({sets}) "
            f"LIMIT {most + 1}",
            "counting slices",
            len(self.answers.pairing) * (1 + len(self._sides)),
        )
        found: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, int]]] = {key: {} for key in self.keys}
        # A bit of `grouping` is 0 where the column is of the set, the first column's being the highest.
        bits = {column: 1 << (len(columns) - 1 - i) for i, column in enumerate(columns)}
        asked: dict[int, list[tuple[str, ...]]] = {}
        for key in self.keys:
            asked.setdefault(sum(bit for c, bit in bits.items() if c not in key), []).append(key)
        for mask, old, new, n, *cell in rows:
            for key in asked[mask]:
                place = tuple(cell[columns.index(column)] for column in key)
                found[key].setdefault(place, dict.fromkeys(Counts.model_fields, 0))[CELLS[old, new]] += n
        for key, slices in found.items():
            if len(slices) > MOST_SLICES:
                raise UsageError(
                    f"{self._asks[key[0]]} {','.join(key)}: more than {MOST_SLICES:,} different values; "
                    "choose columns of fewer, or write bands of them into --metadata FILE"
                )
        return {
            key: [
                Slice(dict(zip(key, place, strict=True)), Counts(**cells))
                for place, cells in sorted(slices.items())
            ]
            for key, slices in found.items()
        }

    @cached_property
    def _by_values(self) -> dict[frozenset[tuple[str, str]], Slice]:
        return {frozenset(each.by.items()): each for slices in self.cells.values() for each in slices}

    def one(self, by: Mapping[str, str]) -> Slice | None:
        """The slice of these values; None where no sample of an old class is there."""
        return self._by_values.get(frozenset(by.items()))

    def flips_in(self, every: Sequence[Mapping[str, str]]) -> list[frozenset[str]]:
        """Ids of the negative flips in each of some slices, by a query for each set of columns."""
        wanted: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for by in every:
            places = wanted.setdefault(tuple(sorted(by)), {})
            places.setdefault(tuple(by[column] for column in sorted(by)), len(places))
        found = {columns: self._flips_of(columns, places) for columns, places in wanted.items()}
        return [found[tuple(sorted(by))][tuple(by[column] for column in sorted(by))] for by in every]

    def _flips_of(
        self, columns: tuple[str, ...], places: Mapping[tuple[str, ...], int]
    ) -> dict[tuple[str, ...], frozenset[str]]:
        """Ids of the negative flips by their values in some columns, of the places that are wanted."""
        work = current()
        values = {f"v{i}": [place[i] for place in places] for i in range(len(columns))}
        relation = work.register({"number": np.arange(len(places)), **values})
        matched = " AND ".join(f"w.v{i} = {self._value[column]}" for i, column in enumerate(columns))
        rows = work.fetch(
            f"SELECT w.number, list(old.id::VARCHAR) FROM {self._samples} JOIN {relation} AS w ON {matched} "
            f"WHERE {self._of_old} AND {self.answers.pairing.join.flipped} GROUP BY w.number",
            "reading flips",
            len(self.answers.pairing) * (1 + len(self._sides)),
        )
        work.drop_later(f"DROP VIEW IF EXISTS {relation}")
        ids = {number: frozenset(found) for number, found in rows}
        return {place: ids.get(number, frozenset()) for place, number in places.items()}

    def flips_among(self, ids: Sequence[str]) -> list[str]:
        """The ids that are negative flips, sorted."""
        rows = current().fetch(
            f"SELECT old.id::VARCHAR FROM {self._old_samples} AND {self.answers.pairing.join.flipped} "
            f"AND {self._among(ids, None)} ORDER BY 1",
            "reading flips",
            len(self.answers.pairing) * (1 + len(self._sides)),
        )
        return [row[0] for row in rows]

    def values(self, ids: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, str]]:
        """By id, the value of each of some negative flips in some of the columns."""
        if not ids or not columns:
            return {}
        # Of very many ids all flips are read: an id that nobody asked for is cheaper than a query that names
        # each.
        among = f" AND old.id::VARCHAR IN ({_values_in_sql(ids)})" if len(ids) <= FEW_IDS else ""
        chosen = ", ".join(f"{self._value[column]}::VARCHAR" for column in columns)
        rows = current().fetch(
            f"SELECT old.id::VARCHAR, {chosen} FROM {self._old_samples} AND "
            f"{self.answers.pairing.join.flipped}{among}",
            "reading flips",
            len(self.answers.pairing) * (1 + len(self._sides)),
        )
        return {sample: dict(zip(columns, values, strict=True)) for sample, *values in rows}

    def count(self, ids: Sequence[str], by: Mapping[str, str] | None) -> tuple[int, int]:
        """Samples of old classes of these ids or in the slice, and those of them that OLD gets right."""
        rows = current().fetch(
            f"SELECT count(*), count(*) FILTER (old.pred = old.label) FROM {self._old_samples} AND "
            f"{self._among(ids, by)}"
        )
        return int(rows[0][0]), int(rows[0][1])

    def _among(self, ids: Sequence[str], by: Mapping[str, str] | None) -> str:
        """SQL: whether a sample has one of these ids, or lies in the slice."""
        parts = [f"old.id::VARCHAR IN ({self._listed(ids)})"] if ids else []
        if by is not None:
            parts.append(
                " AND ".join(f"{self._value[column]} = {quoted(value)}" for column, value in by.items())
            )
        return f"({' OR '.join(f'({part})' for part in parts)})"

    def _listed(self, ids: Sequence[str]) -> str:
        """SQL: some ids, one by one, or where they are many, from a table that lives as long as this."""
        if len(ids) <= FEW_IDS:
            return _values_in_sql(ids)
        key = tuple(ids)
        if key not in self._tables:
            self._tables[key] = current().register({"name": list(key)})
            weakref.finalize(self, current().drop_later, f"DROP VIEW IF EXISTS {self._tables[key]}")
        return f"SELECT name FROM {self._tables[key]}"

    def unknown(self, ids: Sequence[str]) -> list[str]:
        """The ids that no sample has."""
        relation = self.answers.pairing.join.relations["old"]
        rows = current().fetch(
            f"SELECT id::VARCHAR FROM {relation} WHERE id::VARCHAR IN ({self._listed(ids)})"
        )
        return _not_among(ids, rows)

    def of_new_classes(self, ids: Sequence[str]) -> list[str]:
        """The ids that no sample of an old class has: they cannot flip."""
        rows = current().fetch(
            f"SELECT old.id::VARCHAR FROM {self._old_samples} AND {self._among(ids, None)}"
        )
        return _not_among(ids, rows)


def _not_among(ids: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[str]:
    found = {row[0] for row in rows}
    return [sample for sample in ids if sample not in found]


def _values_in_sql(values: Sequence[str]) -> str:
    return ", ".join(map(quoted, values)) or "NULL"
