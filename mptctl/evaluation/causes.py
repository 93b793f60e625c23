"""Causes of flips: for each flip the first of six rules that holds, from predictions and logits alone."""

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
# What the rules of these causes need, and a comparison may lack.
NEEDS: Mapping[Cause, str] = {
    "noise": "--noise-floor",
    "label doubtful": "--baseline",
    "bias": "a validation part",
}
# `bias_line` asks for the level of its bounds; the bounds are not used here.
LEVEL = 0.95


class FlipCauses(NamedTuple):
    """The share of each cause among the flips, and the cause of each flipped sample by its id."""

    shares: Causes
    by_id: dict[str, Cause]


def choose_shift(samples: ValidationSamples) -> float:
    """Choose the shift, taken off the logits of all new classes, with the fewest errors on some samples.

    Of shifts with equally few errors, the one with the fewest flips is chosen, and then the smallest.
    """
    line = bias_line("bias", samples.is_new.astype(np.float64), samples, LEVEL)
    steps = np.flatnonzero(line.wide)
    best_first = np.lexsort((steps, line.steps.flips[steps], line.wrong[steps]))
    return float(line.multiples[steps[best_first[0]]])


def find_shift(validation: Predictions | None, old_classes: frozenset[str]) -> float | None:
    """Choose the shift on a new model's validation part; None if there is no such part, or no logits."""
    if validation is None or validation.logits is None:
        return None
    return choose_shift(validation_samples(PairedAnswers(pair({"new": validation}), old_classes)))


def find_causes(answers: PairedAnswers, shift: float | None) -> FlipCauses | None:
    """Find the cause of each flip: the first rule that holds.

    y is the true class of a flipped sample, which OLD predicts and NEW does not. The rules, in their order:

    - noise: another training of the old model is wrong, too;
    - label doubtful: NEW, a plain update, and OLD in its second choice all predict the same wrong class;
    - bias: NEW predicts y once the shift is taken off the logits of its new classes;
    - new class: NEW predicts a new class, and among the old classes y has the largest logit of NEW;
    - old classes: exactly one old class has a larger logit of NEW than y;
    - forgotten: always.

    Of two equal logits the one in the first column counts as larger.

    Args:
        answers: `old` and `new` with logits; `noise_floor` and `baseline` where they are given.
        shift: for the rule of bias; None leaves this rule out.

    Returns:
        The causes; None where OLD or NEW has no logits.
    """
    pairing = answers.pairing
    if "old" not in answers.scores or "new" not in answers.scores:
        return None
    flips = np.flatnonzero(answers.flipped)
    rule = _first_rule(answers, flips, shift)
    counts = np.bincount(rule, minlength=len(CAUSES)).tolist()
    # A bias can only cause flips to new classes: without any, its rule needs no shift.
    no_new_class = bool(answers.is_old_class[pairing.answers["new"][flips]].all())
    is_tried: Mapping[Cause, bool] = {
        "noise": "noise_floor" in pairing.models,
        "label doubtful": "baseline" in pairing.models,
        "bias": shift is not None or no_new_class,
    }
    shares = Causes(
        rows=[
            CauseRow(cause=cause, flips=rate(n, flips.size) if is_tried.get(cause, True) else None)
            for cause, n in zip(CAUSES, counts, strict=True)
        ],
        bias=shift,
        not_tried=[f"{cause}: needs {NEEDS[cause]}" for cause in NEEDS if not is_tried[cause]],
    )
    ids = pairing.models["old"].table.ids_at(pairing.rows["old"][flips].tolist())
    return FlipCauses(shares, {sample: CAUSES[i] for sample, i in zip(ids, rule.tolist(), strict=True)})


def _first_rule(answers: PairedAnswers, flips: IntArray, shift: float | None) -> IntArray:
    """(F,) the place in `CAUSES` of the first rule that holds for each of (F,) flipped samples."""
    pairing = answers.pairing
    truth, answer = pairing.truth[flips], pairing.answers["new"][flips]
    holds: dict[Cause, BoolArray] = dict.fromkeys(CAUSES, np.zeros(flips.size, dtype=np.bool_))
    if "noise_floor" in pairing.models:
        holds["noise"] = pairing.answers["noise_floor"][flips] != truth
    if "baseline" in pairing.models:
        second = _second_choice(answers, flips)
        holds["label doubtful"] = (answer == second) & (pairing.answers["baseline"][flips] == second)
    logits, columns, names = _logits_of(answers, "new", flips)
    is_new = np.array([name not in answers.old_classes for name in names], dtype=np.bool_)
    if shift is not None:
        holds["bias"] = (logits - shift * is_new).argmax(axis=1) == columns
    larger = _count_larger(logits, columns, ~is_new)
    holds["new class"] = ~answers.is_old_class[answer] & (larger == 0)
    holds["old classes"] = larger == 1
    holds["forgotten"] = np.ones(flips.size, dtype=np.bool_)
    return np.asarray(np.stack([holds[cause] for cause in CAUSES]).argmax(axis=0))


def _logits_of(
    answers: PairedAnswers, role: str, samples: IntArray
) -> tuple[NDArray[np.float64], IntArray, tuple[str, ...]]:
    """(n, C) logits of (n,) samples by one model, the (n,) column of their true class, and the C classes."""
    pairing = answers.pairing
    logits, classes = pairing.models[role].scored
    chosen = np.asarray(logits[pairing.rows[role][samples]], dtype=np.float64)
    return chosen, pairing.columns(role)[pairing.truth[samples]], classes


def _second_choice(answers: PairedAnswers, flips: IntArray) -> IntArray:
    """(F,) the place in the vocabulary of OLD's best class but the true one; -1 if OLD has no other."""
    logits, columns, names = _logits_of(answers, "old", flips)
    logits[np.arange(flips.size), columns] = -np.inf
    place = {name: i for i, name in enumerate(answers.pairing.vocabulary)}
    labels = np.array([place[name] for name in names], dtype=np.int64)
    has_no_other = np.isneginf(logits.max(axis=1, initial=-np.inf))
    return np.where(has_no_other, -1, labels[logits.argmax(axis=1)])


def _count_larger(logits: NDArray[np.float64], columns: IntArray, among: BoolArray) -> IntArray:
    """(n,) how many classes have a larger logit than the true class.

    Args:
        logits: (n, C).
        columns: (n,) the column of each true class; of equal logits the first column counts as larger.
        among: (C,) the classes that are counted.
    """
    own = np.take_along_axis(logits, columns[:, None], axis=1)
    is_before = np.arange(logits.shape[1]) < columns[:, None]
    is_larger = (logits > own) | ((logits == own) & is_before)
    return np.asarray((is_larger & among).sum(axis=1))
