"""The join of models' predictions by id, in the database: classes and answers of samples, as numbers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.agreement import error_of_repeated_ids
from mptctl.evaluation.reading.columns import NAMED, first, integers
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.table import Stored, Table
from mptctl.evaluation.reading.workspace import current

# Numbers of classes, in the narrowest type that holds them: of 100 million samples a byte takes 100 MB.
Codes = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Pairing:
    """N samples with the answers of all models; the order of samples in a file never matters.

    They are sorted by id where a model has logits, and else stand in the order of the first model's table.
    Classes and answers are numbers: indices into the vocabulary.

    Attributes:
        models: the predictions by role, such as `old` and `new`.
        vocabulary: every label and every answer, sorted.
        source: keeps `relation` in the workspace.
        relation: SQL: `id` and `number`, from 0, of each sample.
        truth: (N,) true classes.
        answers: by role, (N,) the model's answers.
        rows: by role of a model with logits, (N,) the row of each sample in its table.
    """

    models: Mapping[str, Predictions]
    vocabulary: tuple[str, ...]
    source: Table | Stored
    relation: str
    truth: Codes
    answers: Mapping[str, Codes]
    rows: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.truth)

    def columns(self, role: str) -> NDArray[np.int64]:
        """(V,) the column of each label of the vocabulary in a model's logits; -1 for an unknown label."""
        column_of = {label: column for column, label in enumerate(self.models[role].classes or ())}
        return np.array([column_of.get(label, -1) for label in self.vocabulary], dtype=np.int64)

    def among(self, labels: Sequence[str] | frozenset[str]) -> NDArray[np.bool_]:
        """(V,) True for each label of the vocabulary that is among `labels`."""
        wanted = frozenset(labels)
        return np.array([label in wanted for label in self.vocabulary], dtype=np.bool_)

    def by_id(self, numbers: NDArray[np.integer[Any]], limit: int | None = None) -> dict[str, int]:
        """The numbers of some samples by id, at most `limit` of them, in the order of the ids as text."""
        return _by_id(self.with_ids(numbers, limit))

    def with_ids(self, numbers: NDArray[np.integer[Any]], limit: int | None = None) -> pa.Table:
        """`id`, as text, and `number` of some samples, as `by_id` has them."""
        order = "ORDER BY 1" if limit is None else f"ORDER BY 1 LIMIT {limit}"
        if self.rows:
            wanted = {"number": np.asarray(numbers, dtype=np.int64)}
            return self._find(wanted, "JOIN", f"ON s.number = v.number {order}")
        # The first model's table stands in the order of the numbers: a fifth of the time of a join by them.
        is_wanted = np.zeros(len(self), dtype=np.int32)
        is_wanted[numbers] = 1
        return self._find({"wanted": is_wanted}, "POSITIONAL JOIN", f"WHERE wanted = 1 {order}")

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """The numbers of the samples with some ids; an id that no sample has is left out."""
        return _by_id(self._find({"name": list(dict.fromkeys(ids))}, "JOIN", "ON s.id::VARCHAR = v.name"))

    def _find(
        self, wanted: Mapping[str, NDArray[np.signedinteger[Any]] | list[str]], join: str, rest: str
    ) -> pa.Table:
        """`id` and `number` of the samples `s` that are joined with columns `v`; join and rest are SQL."""
        work = current()
        view = work.register(wanted)
        found = work.table(
            f"SELECT s.id::VARCHAR AS id, s.number AS number FROM {self.relation} AS s "
            f"{join} {view} AS v {rest}"
        )
        work.drop_later(f"DROP VIEW IF EXISTS {view}")
        return found


def _by_id(samples: pa.Table) -> dict[str, int]:
    """The numbers of samples by id."""
    return dict(zip(*(column.to_pylist() for column in samples.columns), strict=True))


def join(models: Mapping[str, Predictions], vocabulary: tuple[str, ...]) -> Pairing:
    """Join the tables of models, by role, by the ids of their samples.

    Args:
        models: by role; messages compare the other models with the first.
        vocabulary: every label and every answer, sorted.

    Raises:
        DataError: ids are repeated, missing or extra, or labels differ between models.
        StorageError: more memory is needed than the workspace may take.
    """
    base, *others = models
    relations = _relations(models)
    scored = [role for role, model in models.items() if model.logits is not None]
    source: Table | Stored = models[base].table
    if scored:
        source = _sort_by_id(relations[base])
        relations[base] = source.name
    else:
        relations[base] = f"(SELECT row AS number, * FROM {relations[base]})"

    kind = np.min_scalar_type(-len(vocabulary))
    index_of = {name: index for index, name in enumerate(vocabulary)}

    def codes_of(names: Sequence[str]) -> Codes:
        """(n,) index into the vocabulary of each name of a table; -1 for a name that no row has."""
        return np.array([index_of.get(name, -1) for name in names], dtype=kind)

    code_of_label = {role: codes_of(model.table.label_names) for role, model in models.items()}
    code_of_pred = {role: codes_of(model.table.pred_names) for role, model in models.items()}
    # Samples without labels have the empty text as their class.
    has_labels = any(any(model.table.label_names) for model in models.values())
    n = len(models[base])
    truth = np.full(n, index_of.get("", -1), dtype=kind)
    answers = {role: np.empty(n, dtype=kind) for role in models}
    rows = {role: np.empty(n, dtype=np.int64) for role in scored}
    other_labels: dict[str, list[tuple[NDArray[Any], Codes]]] = {role: [] for role in others}
    wanted = {role: ["pred", "label"] if has_labels else ["pred"] for role in models}
    for role in scored:
        wanted[role].append("row")
    for batch in _join_one_to_one(models, relations, wanted):
        numbers = batch["number"]
        for role in models:
            answers[role][numbers] = code_of_pred[role][batch[f"pred_{role}"]]
        for role in scored:
            rows[role][numbers] = batch[f"row_{role}"]
        if not has_labels:
            continue
        labels = code_of_label[base][batch[f"label_{base}"]]
        truth[numbers] = labels
        for role in others:
            own_labels = code_of_label[role][batch[f"label_{role}"]]
            differs = own_labels != labels
            if differs.any():
                other_labels[role].append((numbers[differs], own_labels[differs]))
    pairing = Pairing(models, vocabulary, source, relations[base], truth, answers, rows)
    for role, differing in other_labels.items():
        if differing:
            numbers, labels = map(np.concatenate, zip(*differing, strict=True))
            raise _error_of_labels(pairing, models[base].name, models[role].name, numbers, labels)
    return pairing


def _sort_by_id(relation: str) -> Stored:
    """Store a table sorted by id, with the place of each sample as its `number`.

    Sums of floats depend on the order of the samples, and results must not depend on that of the files.
    """
    table = Stored()
    current().fetch(
        f"CREATE TABLE {table.name} AS SELECT row_number() OVER (ORDER BY id::VARCHAR) - 1 AS number, * "
        f"FROM {relation}"
    )
    return table


def _error_of_labels(
    pairing: Pairing, base: str, model: str, numbers: NDArray[Any], labels: Codes
) -> DataError:
    """Make the error of samples that have other labels in another model's file.

    Args:
        pairing: with the labels of the first model.
        base, model: names of the first model and of the other one.
        numbers: (n,) of these samples.
        labels: (n,) of the other model.
    """
    names = pairing.vocabulary
    samples = [
        f"{sample}: {names[pairing.truth[number]]} or {names[labels[numbers == number][0]]}"
        for sample, number in pairing.by_id(numbers, NAMED).items()
    ]
    return DataError(
        f"{model}: {len(numbers)} labels differ from {base} ({_list_first(len(numbers), samples)}); use the "
        "same labels"
    )


def _join_one_to_one(
    models: Mapping[str, Predictions], relations: Mapping[str, str], wanted: Mapping[str, Sequence[str]]
) -> Generator[dict[str, NDArray[Any]]]:
    """Join tables of equally many rows by id.

    Args:
        models: by role.
        relations: SQL of each model's table; the first has the samples' `number`.
        wanted: by role, the columns of its table that are wanted.

    Yields:
        (n,) columns of some samples: `number`, and the wanted ones, each with its role, such as `pred_old`.

    Raises:
        DataError: ids are repeated, missing or extra.
    """
    base, *others = models
    n = len(models[base])
    joined = 0
    columns = [f"{role}.{column} AS {column}_{role}" for role in models for column in wanted[role]]
    sides = "".join(f" FULL JOIN {relations[role]} AS {role} USING (id)" for role in others)
    query = f"SELECT {base}.number, {', '.join(columns)} FROM {relations[base]} AS {base}{sides}"
    if any(len(models[role]) != n for role in others):
        raise _error_of_ids(models, relations)
    with closing(current().batches(query)) as batches:
        for batch in batches:
            joined += len(batch)
            # Of tables of n rows, a full join has n rows only if it is one to one, and so no empty cells. It
            # is not read any further: one id in very many rows would never end.
            if joined > n or any(column.null_count for column in batch.columns):
                break
            yield dict(zip(batch.schema.names, map(integers, batch.columns), strict=True))
        else:
            return
    raise _error_of_ids(models, relations)


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
        count, ids = current().count_ids(f"SELECT id FROM {relations[role]} GROUP BY id HAVING count(*) > 1")
        if count:
            return error_of_repeated_ids(model.name, count, _list_first(count, ids))
    base, *others = models
    for role in others:
        one, other = relations[base], relations[role]
        missing, first_missing = current().count_ids(f"SELECT id FROM {one} ANTI JOIN {other} USING (id)")
        extra, first_extra = current().count_ids(f"SELECT id FROM {other} ANTI JOIN {one} USING (id)")
        parts = [f"lacks {missing} of its ids ({_list_first(missing, first_missing)})"] if missing else []
        parts += [f"has {extra} ids more ({_list_first(extra, first_extra)})"] if extra else []
        if parts:
            return DataError(
                f"{models[role].name}: against {models[base].name} it {' and '.join(parts)}; predict the "
                "same samples with both"
            )
    raise AssertionError("rows that do not match, and no id that shows it")


def _list_first(total: int, names: Sequence[str]) -> str:
    """List the first of `total` names, and how many more there are."""
    return first(names) + (f" and {total - len(names)} more" if total > len(names) else "")
