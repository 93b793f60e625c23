"""Causes of flips: the first of six rules that holds for each, from answers and logits alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.bias.choice import bias_line
from mptctl.evaluation.bias.validation_samples import ValidationSamples, validation_samples
from mptctl.evaluation.flip_report import Cause, CauseRow, Causes
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.statistics import rate

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
CAUSES: tuple[Cause, ...] = get_args(Cause)
# Needs of rules that a comparison may lack.
NEEDS: Mapping[Cause, str] = {
    "noise": "--noise-floor",
    "label doubtful": "--baseline",
    "bias": "a validation part",
}
# Of bounds of the line, of which none is used here.
LEVEL = 0.95


class FoundCauses(NamedTuple):
    """Shares of the causes, and the cause of each flipped sample by its id."""

    shares: Causes
    by_id: dict[str, Cause]


def chosen_constant(samples: ValidationSamples) -> float:
    """The constant to take off the logits of all new classes for the fewest errors on the validation part.

    Of equally few errors it is the one with the fewest flips, and of these the smallest; inside its step,
    away from where rounding decides.
    """
    line = bias_line("bias", samples.is_new.astype(np.float64), samples, LEVEL)
    steps = np.flatnonzero(line.wide)
    best = steps[np.lexsort((steps, line.steps.flips[steps], line.wrong[steps]))[0]]
    return float(line.multiples[best])


def constant_of(validation: Predictions | None, old_classes: frozenset[str]) -> float | None:
    """`chosen_constant` of a new model's validation part; None where there is none, or it has no logits."""
    if validation is None or validation.logits is None:
        return None
    return chosen_constant(validation_samples(PairedAnswers(pair({"new": validation}), old_classes)))


def find_causes(answers: PairedAnswers, constant: float | None) -> FoundCauses | None:
    """Finds the cause of each flip.

    With a flip's label y (which OLD answered), the rules are, in this order:

    - noise: another training of the old model gets it wrong as well;
    - label doubtful: NEW, a plain update, and OLD in its second choice all name one other class;
    - bias: with the constant taken off its new classes' logits NEW answers y;
    - new class: NEW answers a new class, and of the old classes y has its largest logit;
    - old classes: one old class, and no more, has a larger logit of NEW than y;
    - forgotten: all others.

    Of equal logits the first column is the larger one, as everywhere.

    Args:
        answers: `old` and `new` with logits; `noise_floor` and `baseline` where they are given.
        constant: for the third rule; None leaves it out.

    Returns:
        None where a model has no logits.
    """
    pairing = answers.pairing
    if "old" not in answers.scores or "new" not in answers.scores:
        return None
    at = np.flatnonzero(answers.flipped)
    truth, answer = pairing.truth[at], pairing.answers["new"][at]
    never = np.zeros(at.size, dtype=np.bool_)
    holds: dict[Cause, BoolArray] = dict.fromkeys(CAUSES, never)
    if "noise_floor" in pairing.models:
        holds["noise"] = pairing.answers["noise_floor"][at] != truth
    if "baseline" in pairing.models:
        second = _second_choice(answers, at)
        holds["label doubtful"] = (answer == second) & (pairing.answers["baseline"][at] == second)
    logits, columns, names = _logits(answers, "new", at)
    is_new = np.array([name not in answers.old_classes for name in names], dtype=np.bool_)
    if constant is not None:
        holds["bias"] = (logits - constant * is_new).argmax(axis=1) == columns
    above = _above(logits, columns, ~is_new)
    holds["new class"] = ~answers.is_old_class[answer] & (above == 0)
    holds["old classes"] = above == 1
    holds["forgotten"] = ~never
    first = np.stack([holds[cause] for cause in CAUSES]).argmax(axis=0) if at.size else at
    counts = np.bincount(first, minlength=len(CAUSES)).tolist()
    given: Mapping[Cause, bool] = {
        "noise": "noise_floor" in pairing.models,
        "label doubtful": "baseline" in pairing.models,
        "bias": constant is not None or bool(answers.is_old_class[answer].all()),
    }
    shares = Causes(
        rows=[
            CauseRow(cause=cause, flips=rate(n, at.size) if given.get(cause, True) else None)
            for cause, n in zip(CAUSES, counts, strict=True)
        ],
        bias=constant,
        not_tried=[f"{cause}: needs {NEEDS[cause]}" for cause in NEEDS if not given[cause]],
    )
    ids = pairing.models["old"].table.ids_at(pairing.rows["old"][at].tolist())
    return FoundCauses(shares, {sample: CAUSES[i] for sample, i in zip(ids, first.tolist(), strict=True)})


def _logits(
    answers: PairedAnswers, role: str, at: IntArray
) -> tuple[NDArray[np.float64], IntArray, tuple[str, ...]]:
    """(n, C) logits of some samples, the (n,) column of their true class, and the classes."""
    pairing = answers.pairing
    logits, classes = pairing.models[role].scored
    chosen = np.asarray(logits[pairing.rows[role][at]], dtype=np.float64)
    return chosen, pairing.columns(role)[pairing.truth[at]], classes


def _second_choice(answers: PairedAnswers, at: IntArray) -> IntArray:
    """(n,) the label that OLD, which is right, would have answered next; -1 where it knows no other."""
    logits, columns, names = _logits(answers, "old", at)
    logits[np.arange(at.size), columns] = -np.inf
    place = {name: i for i, name in enumerate(answers.pairing.vocabulary)}
    labels = np.array([place[name] for name in names], dtype=np.int64)
    return np.where(np.isneginf(logits.max(axis=1, initial=-np.inf)), -1, labels[logits.argmax(axis=1)])


def _above(logits: NDArray[np.float64], columns: IntArray, among: BoolArray) -> IntArray:
    """(n,) how many of some classes have a larger logit than the true one."""
    own = np.take_along_axis(logits, columns[:, None], axis=1)
    before = np.arange(logits.shape[1]) < columns[:, None]
    found: IntArray = (((logits > own) | ((logits == own) & before)) & among).sum(axis=1)
    return found
