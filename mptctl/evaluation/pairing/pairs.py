"""The pairing of models on the same samples, matched by id, and the choice of the old classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mptctl.errors import CheckpointError, DataError, option
from mptctl.evaluation.pairing.join import Pairing, join
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.spelling import check_counted, check_spelling


def pair(models: Mapping[str, Predictions]) -> Pairing:
    """Match the samples of several models by id.

    Args:
        models: by role; messages compare the other models with the first.

    Raises:
        DataError: ids are repeated, missing or extra, labels differ between models, or class names are
            written differently or mostly unknown (`check_spelling`). The message names the first three.
        StorageError: more memory is needed than the workspace may take.
    """
    every = list(models.values())
    names: set[str] = set()
    for model in every:
        names.update(model.table.labels, model.table.answers, model.classes or ())
    vocabulary = tuple(sorted(names))
    pairing = join(models, vocabulary)
    check_counted(every)
    check_spelling(every)
    return pairing


# Word for all labels, in place of a list of old classes.
ALL: Literal["all"] = "all"
GivenClasses = Sequence[str] | Literal["all"] | None


@dataclass(frozen=True)
class OldClasses:
    """The choice of the old classes.

    Attributes:
        labels: the old classes.
        never_predicted: labels that the old model never predicts, and so may not know, sorted; empty where
            the old classes are given, or the old model names its classes.
        warnings: on the choice.
    """

    labels: frozenset[str]
    never_predicted: list[str]
    warnings: list[str]


def choose_old_classes(
    old: Predictions, new: Predictions, given: GivenClasses = None, named_by: str = ""
) -> OldClasses:
    """Choose the old classes: the given ones, those that the old model names, or the labels that it predicts.

    Args:
        old, new: predictions of the two models.
        given: labels, or ``all`` for all labels of the test set; None: not given.
        named_by: the flag or the key of a file that gives them, for messages; default: the flag.

    Returns:
        The choice, with warnings on spellings, on an old model that names no classes or others than those
        given, and on labels that the new model cannot predict.

    Raises:
        CheckpointError: the new model, a checkpoint of ours, cannot predict all old classes.
        DataError: a new model from a file cannot, neither model knows a class that was given, or class names
            are written differently or mostly unknown (`check_spelling`).
    """
    check_counted([new])
    warnings = check_spelling([old, new])
    labels = set(old.table.labels)
    never_predicted: list[str] = []
    if given == ALL:
        chosen = frozenset(labels)
    elif given is not None:
        chosen = frozenset(given)
        if unknown := sorted(chosen - labels - set(old.classes or ()) - set(new.classes or ())):
            raise DataError(
                f"{named_by or option('old-classes')}: {first(unknown)} not known to either model; use the "
                "labels of the test set"
            )
    elif old.classes is not None:
        chosen = frozenset(old.classes)
    else:
        never_predicted = sorted(labels - set(old.table.answers))
        chosen = frozenset(labels.difference(never_predicted))
        warnings.append(_inferred_classes_warning(old, len(chosen), never_predicted))
    if given is not None and old.classes is not None:
        needed = labels if given == ALL else set(old.classes)
        warnings += _contradictions(old, chosen, needed, named_by or option("old-classes"))
    _refuse_unknown_to_new(old, new, chosen)
    if new.classes is not None and (unpredictable := sorted(labels - set(new.classes))):
        warnings.append(
            f"{new.name} cannot predict {len(unpredictable)} classes of the test set: {first(unpredictable)}"
        )
    return OldClasses(chosen, never_predicted, warnings)


def _inferred_classes_warning(old: Predictions, count: int, never_predicted: Sequence[str]) -> str:
    """The warning on old classes, so many, that are the labels that OLD predicts, since it names none."""
    others = f", and not {first(never_predicted)}, which it never predicts" if never_predicted else ""
    return (
        f"{old.name} does not say which classes it knows: the {count} labels that it predicts "
        f"count as old{others}; add `classes` to the file, or give {option('old-classes')}"
    )


def _refuse_unknown_to_new(old: Predictions, new: Predictions, old_classes: frozenset[str]) -> None:
    """Raise CheckpointError or, for predictions of a file, DataError where NEW does not know an old class."""
    if new.classes is None:
        return
    unknown = sorted(old_classes - set(new.classes))
    if not unknown:
        return
    advice = f"use a model of the same class names, or give {option('class-map')}"
    if old.classes is not None and set(new.classes) < set(old.classes):
        advice = (
            f"were OLD and NEW swapped? {old.name} knows these classes and all others; the model in "
            "production comes first"
        )
    error = CheckpointError if new.origin == "checkpoint" else DataError
    raise error(
        f"{new.name}: does not know {len(unknown)} of the {len(old_classes)} old classes "
        f"({first(unknown)}); {advice}"
    )


def _contradictions(old: Predictions, chosen: frozenset[str], needed: set[str], named_by: str) -> list[str]:
    """Return a warning where the old classes that are given are not those that the old model names.

    Args:
        old: predictions of the old model, which names its classes.
        chosen: the old classes that are given.
        needed: classes that may not be left out if the model names them. Where the old classes are all labels
            of the test set, a class without samples may be.
        named_by: the flag or key that gives them.
    """
    own = frozenset(old.classes or ())
    more = sorted(chosen - own)
    fewer = sorted((own & needed) - chosen)
    parts = [f"has {first(more)}, which OLD does not know"] if more else []
    parts += [f"leaves out {first(fewer)}, which OLD knows"] if fewer else []
    if not parts:
        return []
    return [
        f"{named_by}: {' and '.join(parts)} by the classes of {old.name}; so other samples are counted than "
        "OLD's own list would"
    ]
