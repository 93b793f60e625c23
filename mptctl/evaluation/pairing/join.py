"""The join of models' predictions by id, in the database: classes and answers of samples, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import NAMED, first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.table import Table
from mptctl.evaluation.reading.workspace import current

# Numbers of classes: int32 as joined, int64 where they were counted.
Codes = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples of several models; sorted by id where a model has logits, and otherwise in any order.

    Classes and answers are numbers: places in a vocabulary.

    Attributes:
        base: the table of the first model, with the samples' ids.
        relation: SQL of that table.
        truth: (N,) true classes.
        answers: by role, (N,) the model's answers.
        rows: by role, of the first model and of those with logits, (N,) the row of each sample in the table.
    """

    base: Table
    relation: str
    truth: Codes
    answers: Mapping[str, Codes]
    rows: Mapping[str, NDArray[np.int64]]

    @cached_property
    def number_of_row(self) -> NDArray[np.int64]:
        """(N,) the number of the sample in each row of `base`."""
        numbers = np.empty(len(self.truth), dtype=np.int64)
        numbers[next(iter(self.rows.values()))] = np.arange(len(numbers))
        return numbers

    def by_id(self, numbers: NDArray[np.integer[Any]], limit: int | None = None) -> dict[str, int]:
        """The numbers of some samples by id, at most `limit` of them, in the order of the ids as text."""
        work = current()
        rows = next(iter(self.rows.values()))[numbers]
        view = work.register({"row": rows, "number": np.asarray(numbers, dtype=np.int64)})
        found = work.fetch(
            f"SELECT id::VARCHAR, number FROM {self.relation} JOIN {view} USING (row) "
            f"ORDER BY 1{'' if limit is None else f' LIMIT {limit}'}",
            "reading ids",
            len(self.truth),
        )
        work.drop_later(f"DROP VIEW IF EXISTS {view}")
        return dict(found)

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """The numbers of the samples with some ids; an id that no sample has is left out."""
        work = current()
        view = work.register({"name": list(dict.fromkeys(ids))})
        found = work.fetch(
            f"SELECT name, row FROM {self.relation} AS s JOIN {view} AS v ON v.name = s.id::VARCHAR",
            "reading ids",
            len(self.truth),
        )
        work.drop_later(f"DROP VIEW IF EXISTS {view}")
        return {name: int(self.number_of_row[row]) for name, row in found}


def join(models: Mapping[str, Predictions], vocabulary: Sequence[str]) -> Samples:
    """Join the tables of models, by role, by the ids of their samples.

    Args:
        models: by role; messages compare the other models with the first.
        vocabulary: every label and answer.

    Raises:
        DataError: ids are repeated, missing or extra, or labels differ between models.
        StorageError: more memory is needed than the workspace may take.
    """
    work, (base, *others) = current(), models
    relations = _relations(models)
    columns = [f"{role}.{column} AS {column}_{role}" for role in models for column in ("label", "pred")]
    with_rows = [role for role, model in models.items() if role == base or model.logits is not None]
    columns += [f"{role}.row AS row_{role}" for role in with_rows]
    sides = "".join(f" FULL JOIN {relations[role]} AS {role} USING (id)" for role in others)
    n = len(models[base])
    # With one row more than the tables have it is known that ids are repeated, however often they are.
    query = f"SELECT {', '.join(columns)}, id FROM {relations[base]} AS {base}{sides} LIMIT {n + 1}"
    has_logits = any(model.logits is not None for model in models.values())
    query = f"SELECT * EXCLUDE (id) FROM ({query}) {'ORDER BY id::VARCHAR' if has_logits else ''}"
    found = work.arrays(query, "pairing", sum(len(model) for model in models.values()))
    # As many rows as each table has, and none without a partner: the join is one to one.
    is_whole = all(len(model) == len(found["label_" + role]) for role, model in models.items())
    if not is_whole or any(np.ma.isMaskedArray(column) for column in found.values()):
        raise _error_of_ids(models, relations)
    place = {label: i for i, label in enumerate(vocabulary)}

    def numbered(codes: Codes, names: Sequence[str]) -> Codes:
        return np.array([place.get(label, -1) for label in names], dtype=np.int32)[codes]

    # Of ten million samples each column takes 40 MB, so those that are not needed any more are freed.
    truth, answers = numbered(found[f"label_{base}"], models[base].table.label_names), dict[str, Codes]()
    rows = {role: found.pop(f"row_{role}") for role in with_rows}
    samples = Samples(models[base].table, relations[base], truth, answers, rows)
    for role, model in models.items():
        labels = numbered(found.pop(f"label_{role}"), model.table.label_names)
        answers[role] = numbered(found.pop(f"pred_{role}"), model.table.pred_names)
        differing = np.flatnonzero(labels != truth)
        if differing.size:
            shown_rows = [
                f"{sample}: {vocabulary[truth[i]]} or {vocabulary[labels[i]]}"
                for sample, i in samples.by_id(differing, NAMED).items()
            ]
            raise DataError(
                f"{model.name}: {differing.size} labels differ from {models[base].name} "
                f"({_list_first(differing.size, shown_rows)}); use the same labels"
            )
    return samples


def _relations(models: Mapping[str, Predictions]) -> dict[str, str]:
    """SQL of each model's table; ids are integers in all of them, or text in all of them."""
    relations = {role: model.table.relation() for role, model in models.items()}
    integers = {role for role, model in models.items() if model.table.has_integer_ids()}
    if len(integers) < len(models):
        # Not by DuckDB's own cast, which would match the text 01 with the integer 1.
        for role in integers:
            relations[role] = f"(SELECT * REPLACE (id::VARCHAR AS id) FROM {relations[role]})"
    return relations


def _error_of_ids(models: Mapping[str, Predictions], relations: Mapping[str, str]) -> DataError:
    """Make the error of a join that is not one to one: of repeated, missing or extra ids."""
    for role, model in models.items():
        count, ids = _count_and_first_ids(f"SELECT id FROM {relations[role]} GROUP BY id HAVING count(*) > 1")
        if count:
            return DataError(
                f"{model.name}: {count} ids stand there more than once ({_list_first(count, ids)}); keep one "
                "row each"
            )
    base, *others = models
    for role in others:
        one, other = relations[base], relations[role]
        missing, first_missing = _count_and_first_ids(f"SELECT id FROM {one} ANTI JOIN {other} USING (id)")
        extra, first_extra = _count_and_first_ids(f"SELECT id FROM {other} ANTI JOIN {one} USING (id)")
        parts = [f"lacks {missing} of its ids ({_list_first(missing, first_missing)})"] if missing else []
        parts += [f"has {extra} ids more ({_list_first(extra, first_extra)})"] if extra else []
        if parts:
            return DataError(
                f"{models[role].name}: against {models[base].name} it {' and '.join(parts)}; predict the "
                "same samples with both"
            )
    raise AssertionError("rows that do not match, and no id that shows it")


def _count_and_first_ids(query: str) -> tuple[int, list[str]]:
    """Return how many ids a query finds, and the first few as text."""
    rows = current().fetch(f"SELECT count(*) OVER (), id::VARCHAR FROM ({query}) ORDER BY 2 LIMIT {NAMED}")
    return (rows[0][0] if rows else 0), [row[1] for row in rows]


def _list_first(total: int, names: Sequence[str]) -> str:
    """List the first of `total` names, and how many more there are."""
    return first(names) + (f" and {total - len(names)} more" if total > len(names) else "")
