"""The join by id: one pass that counts, and checks on both sides that each sample has one partner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import NAMED, first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.side_table import SideTable
from mptctl.evaluation.reading.table import quoted
from mptctl.evaluation.reading.workspace import WATCHED, current
from mptctl.files.explained import shown

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
# Flips that are looked for among the first ids, for each one that is wanted: chance leaves too few of them
# then only where flips are far from evenly spread, and all ids are gone through.
AMPLE = 8
WEIGHT = "try_cast(cost.s0 AS DOUBLE)"
# Weights whose squares a float holds; 0 is one, too. Of NaN, infinity and what is no number this is false.
SOUND = f"coalesce({WEIGHT} = 0 OR {WEIGHT} BETWEEN 1e-100 AND 1e100, false)"
# Sums of a cell: `Cells.weights`, and the samples without a weight.
_VALUE = f"CASE WHEN {SOUND} THEN {WEIGHT} ELSE 0 END"
WEIGHT_SUMS = {
    "weight_0": f"fsum({_VALUE})",
    "weight_1": f"fsum({_VALUE} * {_VALUE})",
    "weight_2": f"max({_VALUE})",
    "no_weight": f"count(*) FILTER (NOT {SOUND})",
}


@dataclass(frozen=True)
class Cells:
    """Samples that are alike in all that is counted, G cells of them. Labels are places in a vocabulary.

    Attributes:
        n: (G,) how many samples.
        truth: (G,) their true class.
        right: by role, (G,) whether the model is right.
        same: by role, (G,) whether the model answers as the old one does.
        answer: (G,) the new model's answer where it lost what the old one had right; -1 elsewhere.
        weights: (G, 3) sum, sum of squares, and largest of the samples' weights; (0, 3) where there are none.
    """

    n: IntArray
    truth: IntArray
    right: Mapping[str, BoolArray]
    same: Mapping[str, BoolArray]
    answer: IntArray
    weights: NDArray[np.float64]

    @property
    def total(self) -> int:
        """All samples."""
        return int(self.n.sum())


@dataclass(frozen=True)
class Samples:
    """N samples, sorted by id as text. Labels are places in a vocabulary.

    Attributes:
        rows: by role, (N,) the row of each sample in the model's file.
        truth: (N,) true classes.
        answers: by role, (N,) the model's answers.
    """

    rows: Mapping[str, IntArray]
    truth: IntArray
    answers: Mapping[str, IntArray]


@dataclass(frozen=True)
class Weights:
    """The weight of each sample.

    Attributes:
        name: the column and its file, for messages.
        table: its `s0` is the weight, as text.
    """

    name: str
    table: SideTable

    def refused(self, joined: str, base: str, count: int) -> DataError:
        """The error of weights that are missing or none, with the first three by id."""
        rows = current().fetch(
            f"SELECT {base}.id::VARCHAR, cost.s0 FROM {joined} WHERE NOT {SOUND} ORDER BY 1 LIMIT {NAMED}"
        )
        named = _named((count, [f"{sample}: {value or 'missing'}" for sample, value in rows]))
        return DataError(
            f"--weight {self.name}: {count} samples have no weight ({named}); write a finite number of 0 or "
            "more for each"
        )


class Join:
    """Tables of models by role; the others are held against the first."""

    def __init__(self, models: Mapping[str, Predictions], weights: Weights | None = None) -> None:
        """Raises DataError where ids are numbers here and text there, or stand in a table again and again."""
        self.models = models
        self.roles = list(models)
        self.weights = weights
        self._refuse_other_ids()
        for role, model in models.items():
            sample = model.table.sample
            # Ids that stand there again and again would be joined with each other: it might not end.
            if len(set(sample)) < len(sample) and (error := self._error_of_repeated_ids(role)) is not None:
                raise error

    @cached_property
    def relations(self) -> dict[str, str]:
        """SQL by role; ids that are all integers are compared as integers, others as text."""
        made = {}
        number = any(model.table.id_kind == "integers" for model in self.models.values())
        for role, model in self.models.items():
            relation = model.table.relation(current())
            if number and model.table.id_kind == "either":
                relation = f"(SELECT row, id::BIGINT AS id, label, pred FROM {relation})"
            made[role] = relation
        return made

    @property
    def joined(self) -> str:
        """SQL: the tables of all roles, each under its role, joined by id."""
        base, *others = self.roles
        sides = [f"{self.relations[base]} AS {base}"]
        sides += [f"JOIN {self.relations[role]} AS {role} ON {role}.id = {base}.id" for role in others]
        return " ".join(sides)

    @property
    def flipped(self) -> str:
        """SQL: whether a joined row is a negative flip."""
        if not {"old", "new"} <= self.models.keys():
            return "false"
        return "old.pred = old.label AND new.pred <> new.label"

    @property
    def _all_rows(self) -> int:
        return sum(model.table.rows for model in self.models.values())

    def count(self, vocabulary: Sequence[str]) -> Cells:
        """The one pass over all samples.

        Hashed row numbers, put together by exclusive or, come to the same over the joined rows as over a
        table's own only if each row was joined an odd number of times. Where they do on every side and there
        are as many joined rows as a table has, the join is one to one and complete. Rows are counted from 1
        there, because the hash of
        0 is 0.

        Args:
            vocabulary: every label, sorted.

        Raises:
            DataError: ids or labels that do not match, with how many and the first three.
        """
        base, *others = self.roles
        old, new = (role if role in self.models else base for role in ("old", "new"))
        keys = {"truth": f"{base}.label"}
        keys |= {f"right_{role}": f"{role}.pred = {base}.label" for role in self.roles}
        keys |= {f"same_{role}": f"{role}.pred = {old}.pred" for role in self.roles}
        keys["answer"] = f"CASE WHEN {self.flipped} THEN {new}.pred END"
        different = " OR ".join(f"{role}.label <> {base}.label" for role in others) or "false"
        sums = {"n": "count(*)", "conflicts": f"count(*) FILTER ({different})"}
        sums |= {f"check_{role}": f"bit_xor(hash({role}.row::BIGINT + 1))" for role in self.roles}
        source = self.joined
        if self.weights is not None:
            sums |= WEIGHT_SUMS
            source += f" LEFT JOIN {self.weights.table.relation} AS cost ON cost.id = {base}.id::VARCHAR"
        named = ", ".join(f"{value} AS {name}" for name, value in (keys | sums).items())
        # There may be a cell for every pair of a thousand classes: DuckDB turns their names into places on
        # all cores.
        with self._places(vocabulary) as place:
            found = current().arrays(
                f"SELECT * REPLACE ({place('truth')} AS truth, {place('answer')} AS answer) "
                f"FROM (SELECT {named} FROM {source} GROUP BY "
                f"{', '.join(str(i + 1) for i in range(len(keys)))})",
                "pairing",
                self._all_rows,
            )
        n = found["n"].astype(np.int64)
        for role, model in self.models.items():
            joined = int(np.bitwise_xor.reduce(found[f"check_{role}"].astype(np.uint64), initial=0))
            own = current().fetch(f"SELECT bit_xor(hash(i)) FROM range(1, {model.table.rows} + 1) AS t(i)")
            if n.sum() != model.table.rows or joined != int(own[0][0]):
                raise self._error_of_ids()
        if found["conflicts"].any():
            raise self._error_of_labels()
        weights = np.empty((0, 3))
        if self.weights is not None:
            if found["no_weight"].any():
                raise self.weights.refused(source, base, int(found["no_weight"].sum()))
            weights = np.stack([found[f"weight_{i}"] for i in range(3)], axis=1)
        return Cells(
            n=n,
            truth=found["truth"],
            right={role: found[f"right_{role}"].astype(np.bool_) for role in self.roles},
            same={role: found[f"same_{role}"].astype(np.bool_) for role in self.roles},
            answer=np.ma.filled(found["answer"], -1),
            weights=weights,
        )

    def samples(self, vocabulary: Sequence[str]) -> Samples:
        """Every sample, for what needs each one: logits, and what is made of them."""
        base = self.roles[0]
        with self._places(vocabulary) as place:
            chosen = [f"{place(f'{base}.label')} AS truth"]
            chosen += [f"{role}.row::BIGINT AS row_{role}" for role in self.roles]
            chosen += [f"{place(f'{role}.pred')} AS answer_{role}" for role in self.roles]
            query = f"SELECT {', '.join(chosen)} FROM {self.joined} ORDER BY {base}.id::VARCHAR"
            found = current().arrays(query, "reading samples", self._all_rows)
        return Samples(
            rows={role: found[f"row_{role}"] for role in self.roles},
            truth=found["truth"],
            answers={role: found[f"answer_{role}"] for role in self.roles},
        )

    @contextmanager
    def _places(self, vocabulary: Sequence[str]) -> Iterator[Callable[[str], str]]:
        """Of the SQL of a label that of its place in the vocabulary."""
        names = current().name()
        current().fetch(f"CREATE TYPE {names} AS ENUM ({', '.join(map(quoted, vocabulary))})")
        yield lambda label: f"enum_code({label}::{names})::BIGINT"
        current().fetch(f"DROP TYPE {names}")

    def first_flips(self, labels: Sequence[str], limit: int, flips: int) -> list[tuple[str, str, str]]:
        """The first flips by id: (id, class, new answer).

        Args:
            labels: classes whose samples count.
            limit: how many at most.
            flips: how many there are: it says among how few of the first ids enough of them are found.
        """
        if not flips:
            return []
        wanted = ", ".join(map(quoted, labels)) or "NULL"
        query = (
            f"SELECT old.id::VARCHAR AS id, old.label, new.pred FROM {self.joined} WHERE {self.flipped} "
            f"AND old.label IN ({wanted})"
        )
        order = f"ORDER BY 1 LIMIT {limit}"
        table, share = self.models["old"].table, AMPLE * limit / flips
        if table.rows >= WATCHED and share < 1:
            bound = quoted(table.sample[int(share * len(table.sample))])
            early = f"old.id::VARCHAR <= {bound} AND new.id::VARCHAR <= {bound}"
            found = current().fetch(f"{query} AND {early} {order}", "reading flips", self._all_rows)
            if len(found) >= min(limit, flips):
                return found
        return current().fetch(f"{query} {order}", "reading flips", self._all_rows)

    def _refuse_other_ids(self) -> None:
        numbers = [m for m in self.models.values() if m.table.id_kind == "integers"]
        texts = [m for m in self.models.values() if m.table.id_kind == "text"]
        if not numbers or not texts:
            return
        one, other = (f"{m.name} ({shown(m.table.ids_at([0])[0])})" for m in (numbers[0], texts[0]))
        raise DataError(
            f"ids are numbers in {one} and text in {other}, so none would match; write one type in all files"
        )

    def _error_of_ids(self) -> DataError:
        """The error of ids that stand there twice, or in one table only."""
        for role in self.roles:
            repeated = self._error_of_repeated_ids(role)
            if repeated is not None:
                return repeated
        base, *others = self.roles
        for role in others:
            missing, extra = self._only_in(base, role), self._only_in(role, base)
            parts = [f"lacks {missing[0]} of its ids ({_named(missing)})"] if missing[0] else []
            parts += [f"has {extra[0]} ids more ({_named(extra)})"] if extra[0] else []
            if parts:
                return DataError(
                    f"{self.models[role].name}: against {self.models[base].name} it {' and '.join(parts)}; "
                    "predict the same samples with both"
                )
        raise AssertionError("rows that do not match, and no id that shows it")

    def _error_of_repeated_ids(self, role: str) -> DataError | None:
        found = self._first(
            f"SELECT id::VARCHAR AS id FROM {self.relations[role]} GROUP BY id HAVING count(*) > 1"
        )
        if not found[0]:
            return None
        return DataError(
            f"{self.models[role].name}: {found[0]} ids stand there more than once ({_named(found)}); keep "
            "one row each"
        )

    def _only_in(self, role: str, other: str) -> tuple[int, list[str]]:
        """The ids that one table has and another has not: how many, and the first."""
        return self._first(
            f"SELECT one.id::VARCHAR AS id FROM {self.relations[role]} AS one "
            f"ANTI JOIN {self.relations[other]} AS other ON one.id = other.id"
        )

    def _error_of_labels(self) -> DataError:
        base, *others = self.roles
        for role in others:
            pairs = f"{self.relations[base]} AS one JOIN {self.relations[role]} AS other ON one.id = other.id"
            rows = current().fetch(
                f"SELECT count(*) OVER (), one.id::VARCHAR, one.label, other.label FROM {pairs} "
                f"WHERE one.label <> other.label ORDER BY 2 LIMIT {NAMED}"
            )
            if rows:
                shown_rows = [f"{sample}: {label} or {odd}" for _, sample, label, odd in rows]
                return DataError(
                    f"{self.models[role].name}: {rows[0][0]} labels differ from {self.models[base].name} "
                    f"({_named((rows[0][0], shown_rows))}); use the same labels"
                )
        raise AssertionError("labels that differ, and none that shows it")

    def _first(self, query: str) -> tuple[int, list[str]]:
        """The number of ids that a query gives, and the first of them."""
        rows = current().fetch(f"SELECT count(*) OVER (), id FROM ({query}) ORDER BY id LIMIT {NAMED}")
        return (rows[0][0] if rows else 0), [row[1] for row in rows]


def _named(found: tuple[int, Sequence[str]]) -> str:
    """The first names of how many there are."""
    total, names = found
    return first(names) + (f" and {total - len(names)} more" if total > len(names) else "")
