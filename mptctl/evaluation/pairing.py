"""Models on the same samples: matched by id, in one label space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.columns import first
from mptctl.evaluation.predictions import Predictions
from mptctl.evaluation.spelling import check_counted, check_spelling


@dataclass(frozen=True)
class Pairing:
    """Samples that all models answered, sorted by id, so that the order in a file never matters.

    Attributes:
        models: the predictions by role, such as `old` and `new`.
        rows: by role, (N,) the row of each sample in the model's file.
        ids: (N,) sample ids, sorted.
        vocabulary: every label, truth or answer; labels below are places in it.
        truth: (N,) true classes.
        answers: by role, (N,) the model's answers.
    """

    models: Mapping[str, Predictions]
    rows: Mapping[str, NDArray[np.int64]]
    ids: NDArray[np.str_]
    vocabulary: tuple[str, ...]
    truth: NDArray[np.int64]
    answers: Mapping[str, NDArray[np.int64]]

    def among(self, labels: Sequence[str] | frozenset[str]) -> NDArray[np.bool_]:
        """(len(vocabulary),) which labels are among `labels`."""
        wanted = frozenset(labels)
        return np.array([label in wanted for label in self.vocabulary], dtype=np.bool_)


def pair(models: Mapping[str, Predictions]) -> Pairing:
    """Match the samples of models, given by role, by id; messages hold the others against the first.

    Raises:
        DataError: ids that are repeated, missing or extra, labels that differ, or names that differ only in
            form or are hardly ever known (`check_spelling`), with the first three.
    """
    rows = {role: _sorted_rows(model) for role, model in models.items()}
    base, *others = models
    ids, labels = models[base].ids[rows[base]], models[base].labels[rows[base]]
    for role in others:
        _check_same(models[base].name, ids, labels, models[role], rows[role])
    every = list(models.values())
    check_counted(every)
    check_spelling(every)
    vocabulary = sorted(
        set().union(labels.tolist(), *(set(m.preds.tolist()) | set(m.classes or ()) for m in every))
    )
    place = np.array(vocabulary, dtype=np.str_)
    return Pairing(
        models=dict(models),
        rows=rows,
        ids=ids,
        vocabulary=tuple(vocabulary),
        truth=np.searchsorted(place, labels).astype(np.int64),
        answers={
            role: np.searchsorted(place, model.preds[rows[role]]).astype(np.int64)
            for role, model in models.items()
        },
    )


def _check_same(
    base: str, ids: NDArray[np.str_], labels: NDArray[np.str_], model: Predictions, order: NDArray[np.int64]
) -> None:
    """DataError where a model's ids or labels, put in order, are not those of the model called `base`."""
    theirs = model.ids[order]
    if not np.array_equal(ids, theirs):
        missing, extra = np.setdiff1d(ids, theirs).tolist(), np.setdiff1d(theirs, ids).tolist()
        parts = [f"lacks {len(missing)} of its ids ({first(missing)})"] if missing else []
        parts += [f"has {len(extra)} ids more ({first(extra)})"] if extra else []
        raise DataError(
            f"{model.name}: against {base} it {' and '.join(parts)}; predict the same samples with both"
        )
    different = np.flatnonzero(labels != model.labels[order])
    if different.size:
        shown = [f"{ids[i]}: {labels[i]} or {model.labels[order][i]}" for i in different]
        raise DataError(
            f"{model.name}: {different.size} labels differ from {base} ({first(shown)}); use the same labels"
        )


def choose_old_classes(
    old: Predictions, new: Predictions, given: Sequence[str] | None = None
) -> tuple[frozenset[str], list[str]]:
    """Which classes are old, and what the reader should know about it.

    The old classes are those given, or those that the old model can answer, or else all labels.

    Returns:
        The old classes, and warnings.

    Raises:
        CheckpointError, DataError: old classes that the new model cannot answer; the message names them. The
            first where the new model is a checkpoint of ours, the second where it is a predictions file.
        DataError: names that differ only in form, or answers of which most are unknown (`check_spelling`).
    """
    check_counted([new])
    warnings = check_spelling([old, new])
    labels = set(old.labels.tolist())
    if given is not None:
        chosen = frozenset(given)
        if unknown := sorted(chosen - labels - set(old.classes or ()) - set(new.classes or ())):
            raise DataError(
                f"--old-classes: {first(unknown)} not known to either model; use the labels of the test set"
            )
    elif old.classes is not None:
        chosen = frozenset(old.classes)
    else:
        chosen = frozenset(labels)
        warnings.append(
            f"{old.name} does not say which classes it knows: all {len(labels)} labels count as old; "
            "add `classes` to the file, or give --old-classes"
        )
    if new.classes is not None:
        if foreign := sorted(chosen - set(new.classes)):
            error = CheckpointError if new.origin == "checkpoint" else DataError
            raise error(
                f"{new.name}: does not know {len(foreign)} of the {len(chosen)} old classes "
                f"({first(foreign)}); use a model of the same class names"
            )
        if strange := sorted(labels - set(new.classes)):
            warnings.append(
                f"{new.name} cannot answer {len(strange)} classes of the test set: {first(strange)}"
            )
    return chosen, warnings


def _sorted_rows(model: Predictions) -> NDArray[np.int64]:
    order = np.argsort(model.ids, kind="stable").astype(np.int64)
    ids = model.ids[order]
    repeated = np.unique(ids[1:][ids[1:] == ids[:-1]]).tolist()
    if repeated:
        raise DataError(
            f"{model.name}: {len(repeated)} ids stand there more than once ({first(repeated)}); "
            "keep one row each"
        )
    return order
