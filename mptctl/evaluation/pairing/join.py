"""The join of models' predictions by id: counted in one pass that checks that each sample has one partner."""

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
from mptctl.evaluation.reading.table import quoted
from mptctl.evaluation.reading.workspace import WATCHED, current
from mptctl.files.explained import shown

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
# To find the first flips by id, so many of the first ids are read that they should hold this many times the
# flips that are wanted. If the ids hold too few after all, because flips are unevenly spread, all are read.
AMPLE = 8


@dataclass(frozen=True)
class Cells:
    """Samples in G cells; the samples of a cell are alike in all that is counted.

    Classes and answers are numbers: places in a vocabulary.

    Attributes:
        n: (G,) how many samples.
        truth: (G,) their true class.
        right: by role, (G,) True where the model is right.
        same: by role, (G,) True where the model answers as the old model does.
        answer: (G,) the new model's answer where the samples are negative flips; -1 elsewhere.
        old_answer: (G,) the old model's answer where it is wrong; -1 elsewhere.
    """

    n: IntArray
    truth: IntArray
    right: Mapping[str, BoolArray]
    same: Mapping[str, BoolArray]
    answer: IntArray
    old_answer: IntArray

    @property
    def total(self) -> int:
        """The number of samples in all cells."""
        return int(self.n.sum())


@dataclass(frozen=True)
class Samples:
    """N samples, sorted by id as text. Classes and answers are numbers: places in a vocabulary.

    Attributes:
        rows: by role, (N,) the row of each sample in the model's table.
        truth: (N,) true classes.
        answers: by role, (N,) the model's answers.
    """

    rows: Mapping[str, IntArray]
    truth: IntArray
    answers: Mapping[str, IntArray]


class Join:
    """The tables of models, by role, joined by id. The first role is the base that messages compare with.

    Args:
        models: by role.

    Raises:
        DataError: ids are numbers in one table and text in another, or ids of a table are repeated often.
    """

    def __init__(self, models: Mapping[str, Predictions]) -> None:
        self.models = models
        self.roles = list(models)
        self._refuse_mixed_id_types()
        for role, model in models.items():
            sample = model.table.sample
            # If ids are repeated often, each is joined with all its likes, and the join may take forever.
            if len(set(sample)) < len(sample) and (error := self._error_of_repeated_ids(role)) is not None:
                raise error

    @cached_property
    def relations(self) -> dict[str, str]:
        """SQL of each role's table; ids are integers in all of them, or text in all of them."""
        relations = {}
        has_integers = any(model.table.id_kind == "integers" for model in self.models.values())
        for role, model in self.models.items():
            relation = model.table.relation(current())
            if has_integers and model.table.id_kind == "either":
                relation = f"(SELECT row, id::HUGEINT AS id, label, pred FROM {relation})"
            relations[role] = relation
        return relations

    @property
    def joined(self) -> str:
        """SQL: the tables of all roles, joined by id; each table is named as its role."""
        base, *others = self.roles
        sides = [f"{self.relations[base]} AS {base}"]
        sides += [f"JOIN {self.relations[role]} AS {role} ON {role}.id = {base}.id" for role in others]
        return " ".join(sides)

    @property
    def flipped(self) -> str:
        """SQL of a condition: a joined row is a negative flip; false if there is no old or no new model."""
        if not {"old", "new"} <= self.models.keys():
            return "false"
        return "old.pred = old.label AND new.pred <> new.label"

    @property
    def _all_rows(self) -> int:
        """The number of rows of all tables together, for progress."""
        return sum(model.table.rows for model in self.models.values())

    def count(self, vocabulary: Sequence[str]) -> Cells:
        """Count all samples in one pass that also checks the join.

        The check: the exclusive or of the hashed row numbers is the same over the joined rows and over all
        rows of a table only if each row was joined an odd number of times. If that holds for every table, and
        there are as many joined rows as rows in each table, the join is one to one and complete. The row
        numbers are hashed from 1, because the hash of 0 is 0.

        Args:
            vocabulary: every label and answer, sorted.

        Raises:
            DataError: ids or labels do not match; the message has how many, and the first three.
        """
        base, *others = self.roles
        old, new = (role if role in self.models else base for role in ("old", "new"))
        keys = {"truth": f"{base}.label"}
        keys |= {f"right_{role}": f"{role}.pred = {base}.label" for role in self.roles}
        keys |= {f"same_{role}": f"{role}.pred = {old}.pred" for role in self.roles}
        keys["answer"] = f"CASE WHEN {self.flipped} THEN {new}.pred END"
        # Where OLD is wrong there is no flip, so cells of flips are not divided.
        keys["old_answer"] = f"CASE WHEN {old}.pred <> {base}.label THEN {old}.pred END"
        different = " OR ".join(f"{role}.label <> {base}.label" for role in others) or "false"
        sums = {"n": "count(*)", "conflicts": f"count(*) FILTER ({different})"}
        sums |= {f"check_{role}": f"bit_xor(hash({role}.row::BIGINT + 1))" for role in self.roles}
        named = ", ".join(f"{value} AS {name}" for name, value in (keys | sums).items())
        # There may be a cell for every pair of a thousand classes, so DuckDB turns names into places: it uses
        # all cores.
        with self._places(vocabulary) as place:
            result = current().arrays(
                f"SELECT * REPLACE ({place('truth')} AS truth, {place('answer')} AS answer, "
                f"{place('old_answer')} AS old_answer) FROM (SELECT {named} FROM {self.joined} GROUP BY "
                f"{', '.join(str(i + 1) for i in range(len(keys)))})",
                "pairing",
                self._all_rows,
            )
        n = result["n"].astype(np.int64)
        for role, model in self.models.items():
            joined = int(np.bitwise_xor.reduce(result[f"check_{role}"].astype(np.uint64), initial=0))
            own = current().fetch(f"SELECT bit_xor(hash(i)) FROM range(1, {model.table.rows} + 1) AS t(i)")
            if n.sum() != model.table.rows or joined != int(own[0][0]):
                raise self._error_of_ids()
        if result["conflicts"].any():
            raise self._error_of_labels()
        return Cells(
            n=n,
            truth=result["truth"],
            right={role: result[f"right_{role}"].astype(np.bool_) for role in self.roles},
            same={role: result[f"same_{role}"].astype(np.bool_) for role in self.roles},
            answer=np.ma.filled(result["answer"], -1),
            old_answer=np.ma.filled(result["old_answer"], -1),
        )

    def samples(self, vocabulary: Sequence[str]) -> Samples:
        """Read every sample, sorted by id, for what cells do not tell, such as anything made of logits.

        Args:
            vocabulary: every label and answer, sorted.
        """
        base = self.roles[0]
        with self._places(vocabulary) as place:
            chosen = [f"{place(f'{base}.label')} AS truth"]
            chosen += [f"{role}.row::BIGINT AS row_{role}" for role in self.roles]
            chosen += [f"{place(f'{role}.pred')} AS answer_{role}" for role in self.roles]
            query = f"SELECT {', '.join(chosen)} FROM {self.joined} ORDER BY {base}.id::VARCHAR"
            result = current().arrays(query, "reading samples", self._all_rows)
        return Samples(
            rows={role: result[f"row_{role}"] for role in self.roles},
            truth=result["truth"],
            answers={role: result[f"answer_{role}"] for role in self.roles},
        )

    @contextmanager
    def _places(self, vocabulary: Sequence[str]) -> Iterator[Callable[[str], str]]:
        """Give a function from the SQL of a label to the SQL of its place in the vocabulary.

        The SQL is valid until the block ends, because it uses a type that is made for it.
        """
        label_type = current().name()
        current().fetch(f"CREATE TYPE {label_type} AS ENUM ({', '.join(map(quoted, vocabulary))})")
        yield lambda label: f"enum_code({label}::{label_type})::BIGINT"
        current().fetch(f"DROP TYPE {label_type}")

    def first_flips(self, labels: Sequence[str], limit: int, flips: int) -> list[tuple[str, str, str]]:
        """Find the first negative flips by id, each as (id, true class, new model's answer).

        Args:
            labels: classes whose samples count.
            limit: how many flips are returned at most.
            flips: how many there are in all. From this follows how few of the first ids hold enough flips.
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
            first_rows = current().fetch(f"{query} AND {early} {order}", "reading flips", self._all_rows)
            if len(first_rows) >= min(limit, flips):
                return first_rows
        return current().fetch(f"{query} {order}", "reading flips", self._all_rows)

    def _refuse_mixed_id_types(self) -> None:
        """Raise DataError where ids are numbers in one table and text in another."""
        numbers = [m for m in self.models.values() if m.table.id_kind == "integers"]
        texts = [m for m in self.models.values() if m.table.id_kind == "text"]
        if not numbers or not texts:
            return
        one, other = (f"{m.name} ({shown(m.table.ids_at([0])[0])})" for m in (numbers[0], texts[0]))
        raise DataError(
            f"ids are numbers in {one} and text in {other}, so none would match; write one type in all files"
        )

    def _error_of_ids(self) -> DataError:
        """Make the error of a join that is not one to one: of repeated, missing or extra ids."""
        for role in self.roles:
            repeated = self._error_of_repeated_ids(role)
            if repeated is not None:
                return repeated
        base, *others = self.roles
        for role in others:
            missing, first_missing = self._only_in(base, role)
            extra, first_extra = self._only_in(role, base)
            parts = [f"lacks {missing} of its ids ({_list_first(missing, first_missing)})"] if missing else []
            parts += [f"has {extra} ids more ({_list_first(extra, first_extra)})"] if extra else []
            if parts:
                return DataError(
                    f"{self.models[role].name}: against {self.models[base].name} it {' and '.join(parts)}; "
                    "predict the same samples with both"
                )
        raise AssertionError("rows that do not match, and no id that shows it")

    def _error_of_repeated_ids(self, role: str) -> DataError | None:
        """Make the error of ids that a table has more than once; None where it has none."""
        count, ids = self._count_and_first_ids(
            f"SELECT id::VARCHAR AS id FROM {self.relations[role]} GROUP BY id HAVING count(*) > 1"
        )
        if not count:
            return None
        return DataError(
            f"{self.models[role].name}: {count} ids stand there more than once ({_list_first(count, ids)}); "
            "keep one row each"
        )

    def _only_in(self, role: str, other: str) -> tuple[int, list[str]]:
        """Find the ids that the table of `role` has and that of `other` lacks: how many, and the first."""
        return self._count_and_first_ids(
            f"SELECT one.id::VARCHAR AS id FROM {self.relations[role]} AS one "
            f"ANTI JOIN {self.relations[other]} AS other ON one.id = other.id"
        )

    def _error_of_labels(self) -> DataError:
        """Make the error of the first table whose labels differ from the base's."""
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
                    f"({_list_first(rows[0][0], shown_rows)}); use the same labels"
                )
        raise AssertionError("labels that differ, and none that shows it")

    def _count_and_first_ids(self, query: str) -> tuple[int, list[str]]:
        """Return how many ids a query finds, and the first few by name."""
        rows = current().fetch(f"SELECT count(*) OVER (), id FROM ({query}) ORDER BY id LIMIT {NAMED}")
        return (rows[0][0] if rows else 0), [row[1] for row in rows]


def _list_first(total: int, names: Sequence[str]) -> str:
    """List the first of `total` names, and how many more there are."""
    return first(names) + (f" and {total - len(names)} more" if total > len(names) else "")
