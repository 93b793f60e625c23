"""Warnings on a doubtful comparison: a model compared with itself, swapped models, guesses, wrong logits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mptctl.evaluation.pairing.confusion import LIKELY_CAUSE
from mptctl.evaluation.pairing.join import Pairing
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.logits import row_blocks
from mptctl.evaluation.reading.predictions import Predictions

IDENTICAL = "OLD and NEW are the same model: nothing was compared"
# Limits of what is doubtful; all are chosen, not measured.
# The old model hardly guesses better: accuracy up to this share of the way from guessing to never wrong.
HARDLY_RIGHT = 0.1
# Nearly all is lost: at least this share of the old model's right predictions.
NEARLY_ALL = 0.9
# Predictions look unrelated: kept right answers up to this share of the way from chance to all.
UNRELATED = 0.1
# With fewer right predictions of the old model, any share of them may be kept by chance.
FEW = 30
# Rows of logits that are looked at.
LOOKED_AT = 1_000
# Classes that only OLD predicts say that it is newer if they have at least this share of the samples. With
# fewer samples, NEW may just never predict them.
CLASSES_ADDED = 0.05


def same_answers(pairing: Pairing) -> bool:
    """Tell whether both models give the same answer to every sample."""
    return np.array_equal(pairing.answers["old"], pairing.answers["new"])


def same_content(pairing: Pairing) -> bool:
    """Tell whether both models' predictions are equal: answers, classes, and logits if there are any.

    The order of samples and of columns does not matter. Classes of a file that names none are not compared.
    """
    old, new = pairing.models["old"], pairing.models["new"]
    if (old.logits is None) != (new.logits is None) or not same_answers(pairing):
        return False
    if old.classes is None or new.classes is None:
        return True
    if set(old.classes) != set(new.classes):
        return False
    if old.logits is None or new.logits is None:
        return True
    new_column = {label: column for column, label in enumerate(new.classes)}
    columns = [new_column[label] for label in old.classes]
    old_rows, new_rows = pairing.rows["old"], pairing.rows["new"]
    return all(
        np.array_equal(old.logits[old_rows[samples]], new.logits[new_rows[samples]][:, columns])
        for samples in row_blocks(old.logits)
    )


def never_right_sentence(counts: Counts) -> str:
    """The sentence on an old model that is wrong on every sample of old classes."""
    return (
        f"the old model is wrong on all {counts.total:,} samples of old classes, so that nothing can be lost"
    )


def comparison_warnings(counts: Counts, choices: int) -> list[str]:
    """Return warnings if the old model is hardly ever right, or its right predictions are nearly all lost.

    Args:
        counts: the flip table over test samples of the old classes.
        choices: how many classes the old model can predict.
    """
    n, right = counts.total, counts.old_right
    warnings = []
    guessing = 1 / choices
    if not right:
        warnings.append(f"{never_right_sentence(counts)}; {LIKELY_CAUSE}")
    elif choices > 1 and right / n <= guessing + HARDLY_RIGHT * (1 - guessing):
        warnings.append(
            f"the old model is hardly ever right: on {100 * right / n:.2f} % of the samples of old classes, "
            f"where guessing among {choices:,} gives {100 * guessing:.2f} %, so NFR cannot be large; "
            f"{LIKELY_CAUSE}"
        )
    if right and counts.negative_flips / right >= NEARLY_ALL:
        warnings.append(
            f"{counts.negative_flips:,} of the {right:,} right predictions of the old model are lost; "
            f"{LIKELY_CAUSE} of one of the two"
        )
    return warnings


def unrelated_warnings(answers: PairedAnswers) -> list[str]:
    """Return a warning if the new model keeps hardly more of the old model's right predictions than chance.

    Returns:
        One warning, or none. None with fewer than `FEW` right predictions, and none if nearly all are lost,
        of which `comparison_warnings` warns.
    """
    pairing, counts = answers.pairing, answers.counts()
    n, kept = counts.old_right, counts.both_right
    if n < FEW or kept == n or n - kept >= NEARLY_ALL * n:
        return []
    new = pairing.models["new"]
    share = np.array([new.table.answers[label] for label in pairing.vocabulary]) / len(new)
    old_right_by_class = answers.by_class[:, :2].sum(axis=1)  # both right, and flips
    chance = float(share @ old_right_by_class) / n
    if kept / n > chance + UNRELATED * (1 - chance):
        return []
    return [
        f"the predictions look unrelated: of {n:,} right predictions of the old model the new one keeps "
        f"{kept:,} ({100 * kept / n:.2f} %), and predictions drawn by its frequencies of classes keep "
        f"{100 * chance:.2f} %; the likely cause is ids that name other samples in one of the two, or the "
        "order of the class names"
    ]


def swap_warnings(answers: PairedAnswers) -> list[str]:
    """Return a warning if OLD and NEW may be swapped: OLD knows all classes of NEW and more, and errs less.

    A model that names no classes is taken to know those that it predicts. The classes that only OLD predicts
    must then have enough samples (`CLASSES_ADDED`), and OLD must be right on half of these.

    Returns:
        One warning, or none.
    """
    pairing = answers.pairing
    old, new = pairing.models["old"], pairing.models["new"]
    old_classes = frozenset(old.table.answers if old.classes is None else old.classes)
    new_classes = frozenset(new.table.answers if new.classes is None else new.classes)
    _, old_wrong = answers.wrong("old")
    _, new_wrong = answers.wrong("new")
    if not new_classes < old_classes or old_wrong >= new_wrong:
        return []
    if old.classes is None or new.classes is None:
        is_of_old_only = pairing.among(old_classes - new_classes)[pairing.truth]
        right = answers.right["old"][is_of_old_only]
        if len(right) < CLASSES_ADDED * len(pairing) or 2 * int(right.sum()) < len(right):
            return []
    return [
        f"OLD looks newer than NEW: {old.name} predicts {len(old_classes):,} classes with "
        f"{100 * old_wrong / len(pairing):.2f} % errors, {new.name} {len(new_classes):,} of them with "
        f"{100 * new_wrong / len(pairing):.2f} %; the model in production comes first"
    ]


def probability_warnings(models: Iterable[Predictions]) -> list[str]:
    """Return a warning on each model whose logits look like probabilities: 0 to 1, with sum 1 in each row."""
    warnings = []
    for model in models:
        if model.logits is None:
            continue
        rows = np.asarray(model.logits[:: max(1, len(model) // LOOKED_AT)], dtype=np.float64)
        # The sum is compared with room for the rounding of many probabilities in half precision.
        if ((rows >= 0) & (rows <= 1)).all() and (abs(rows.sum(axis=1) - 1) < 0.01).all():
            warnings.append(
                f"{model.name}: its `logits` look like probabilities, from which confidence and calibration "
                "come out wrong; write what goes into the softmax, or its logarithm"
            )
    return warnings
