"""Models on the same samples: matched by id, in one label space, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, DataError, option
from mptctl.evaluation.pairing.join import Cells, Join, Samples, Weights
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.spelling import check_counted, check_spelling


@dataclass(frozen=True)
class Pairing:
    """Samples that all models answered; the order in a file never matters.

    Attributes:
        models: the predictions by role, such as `old` and `new`.
        vocabulary: every label, truth or answer, sorted; labels below are places in it.
        cells: how often each combination of class, right and wrong answers occurs: all that rates are made
            of.
        join: where the samples themselves are read from, for what needs each of them.
    """

    models: Mapping[str, Predictions]
    vocabulary: tuple[str, ...]
    cells: Cells
    join: Join

    @cached_property
    def samples(self) -> Samples:
        """Every sample, sorted by id."""
        return self.join.samples(self.vocabulary)

    @property
    def rows(self) -> Mapping[str, NDArray[np.int64]]:
        """By role, (N,) the row of each sample in the model's file."""
        return self.samples.rows

    @property
    def truth(self) -> NDArray[np.int64]:
        """(N,) true classes."""
        return self.samples.truth

    @property
    def answers(self) -> Mapping[str, NDArray[np.int64]]:
        """By role, (N,) the model's answers."""
        return self.samples.answers

    @cached_property
    def ids(self) -> NDArray[np.str_]:
        """(N,) sample ids, sorted."""
        role, model = next(iter(self.models.items()))
        return model.ids[self.rows[role]]

    def columns(self, role: str) -> NDArray[np.int64]:
        """(len(vocabulary),) the column of each label in a model's logits; -1 where it does not know it."""
        place = {label: column for column, label in enumerate(self.models[role].classes or ())}
        return np.array([place.get(label, -1) for label in self.vocabulary], dtype=np.int64)

    def __len__(self) -> int:
        return self.cells.total

    def among(self, labels: Sequence[str] | frozenset[str]) -> NDArray[np.bool_]:
        """(len(vocabulary),) which labels are among `labels`."""
        wanted = frozenset(labels)
        return np.array([label in wanted for label in self.vocabulary], dtype=np.bool_)


def pair(models: Mapping[str, Predictions], weights: Weights | None = None) -> Pairing:
    """Match the samples of models, given by role, by id; messages hold the others against the first.

    Args:
        models: by role.
        weights: what each sample counts, summed in the same pass.

    Raises:
        DataError: ids that are repeated, missing or extra, labels that differ, or names that differ only in
            form or are hardly ever known (`check_spelling`), with the first three; a sample without a weight.
        StorageError: more memory is needed than the workspace may take.
    """
    join = Join(models, weights)
    every = list(models.values())
    names: set[str] = set()
    for model in every:
        names.update(model.table.labels, model.table.answers, model.classes or ())
    vocabulary = tuple(sorted(names))
    cells = join.count(vocabulary)
    check_counted(every)
    check_spelling(every)
    return Pairing(dict(models), vocabulary, cells, join)


# Word for all labels, in place of a list of old classes.
ALL: Literal["all"] = "all"
GivenClasses = Sequence[str] | Literal["all"] | None


def choose_old_classes(
    old: Predictions, new: Predictions, given: GivenClasses = None
) -> tuple[frozenset[str], list[str]]:
    """Chooses the old classes, with warnings about the choice.

    The old classes are those given, or those that the old model can answer, or else all labels.

    Args:
        old, new: their predictions.
        given: labels, or ``all``.

    Returns:
        The old classes, and warnings.

    Raises:
        CheckpointError, DataError: old classes that the new model cannot answer; the message names them. The
            first where the new model is a checkpoint of ours, the second where it is a predictions file.
        DataError: names that differ only in form, or answers of which most are unknown (`check_spelling`).
    """
    check_counted([new])
    warnings = check_spelling([old, new])
    labels = set(old.table.labels)
    if given == ALL:
        chosen = frozenset(labels)
    elif given is not None:
        chosen = frozenset(given)
        if unknown := sorted(chosen - labels - set(old.classes or ()) - set(new.classes or ())):
            raise DataError(
                f"{option('old-classes')}: {first(unknown)} not known to either model; use the labels of the "
                "test set"
            )
    elif old.classes is not None:
        chosen = frozenset(old.classes)
    else:
        chosen = frozenset(labels)
        warnings.append(
            f"{old.name} does not say which classes it knows: all {len(labels)} labels count as old; "
            f"add `classes` to the file, or give {option('old-classes')}"
        )
    if new.classes is not None:
        if foreign := sorted(chosen - set(new.classes)):
            error = CheckpointError if new.origin == "checkpoint" else DataError
            swapped = old.classes is not None and set(new.classes) < set(old.classes)
            advice = (
                f"were OLD and NEW swapped? {old.name} knows these classes and all others; the model in "
                "production comes first"
                if swapped
                else f"use a model of the same class names, or give {option('class-map')}"
            )
            raise error(
                f"{new.name}: does not know {len(foreign)} of the {len(chosen)} old classes "
                f"({first(foreign)}); {advice}"
            )
        if strange := sorted(labels - set(new.classes)):
            warnings.append(
                f"{new.name} cannot predict {len(strange)} classes of the test set: {first(strange)}"
            )
    return chosen, warnings


def unanswered_labels(old: Predictions, given: GivenClasses = None) -> frozenset[str]:
    """Labels that the old model never answers, and so may not know, where nobody names its classes."""
    if given is not None or old.classes is not None:
        return frozenset()
    return frozenset(old.table.labels) - frozenset(old.table.answers)
