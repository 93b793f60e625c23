"""The curve of NFR against error that a bias taken off the new classes' logits gives after training."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import SweepCurve, SweepPoint
from mptctl.evaluation.pairing.scores import FloatArray, Scores

# Steps of a curve that a report keeps: more than a figure can show. The minimum is taken over all of them.
POINTS = 200


class BiasSteps(NamedTuple):
    """Counts of wrong answers at zero and at every bias where they change.

    Attributes:
        biases: (S,) increasing, the first 0: the counts of a step hold from its bias to the next one.
        flips: (S,) wrong answers to samples of old classes that the old model got right.
        wrong_old, wrong_new: (S,) wrong answers to samples of old and of new classes.
    """

    biases: FloatArray
    flips: NDArray[np.int64]
    wrong_old: NDArray[np.int64]
    wrong_new: NDArray[np.int64]


def sweep_bias(
    name: str,
    role: Literal["new", "baseline"],
    scores: Scores,
    truth: NDArray[np.int64],
    of_old: NDArray[np.bool_],
    to_keep: NDArray[np.bool_],
    error_limit: float,
) -> SweepCurve | None:
    """Rates of one model over every bias, from zero to the one above which no answer changes.

    The rates change only where a sample's answer goes over to an old class. They are counted at each of
    these crossings, so that the curve is exact.

    The bias is read off the test samples themselves: this is the most that such a correction could do,
    which is what a trained model should be held against.

    Args:
        name, role: of the model.
        scores: of the model whose logits are biased; minus infinities may be among them, NaN may not.
        truth: (N,) true labels.
        of_old: (N,) samples of old classes.
        to_keep: (N,) of these, the ones that the old model got right.
        error_limit: error on all samples of the model that is judged, as a fraction.

    Returns:
        The curve, with the point of the fewest flips whose error is at most `error_limit`; None where no
        bias changes an answer.
    """
    steps = _steps_of_sweep(scores, truth, of_old, to_keep)
    if steps is None:
        return None
    n, n_old = len(truth), int(of_old.sum())
    error = (steps.wrong_old + steps.wrong_new) / n

    def point(step: int) -> SweepPoint:
        return SweepPoint(
            bias=float(steps.biases[step]),
            nfr=float(steps.flips[step] / n_old),
            er_old_classes=float(steps.wrong_old[step] / n_old),
            er_new_classes=None if n_old == n else float(steps.wrong_new[step] / (n - n_old)),
            er_all=float(error[step]),
        )

    within_limit = np.flatnonzero(error <= error_limit)
    # Of equally few flips the step with the lowest error, and of these the smallest bias.
    order = np.lexsort((within_limit, error[within_limit], steps.flips[within_limit]))
    best = within_limit[order[:1]]
    shown = np.linspace(0, len(error) - 1, min(POINTS, len(error))).astype(np.int64)
    kept = np.unique(np.concatenate([shown, best, [int(error.argmin())]]))
    at_new_error = point(int(best[0])) if best.size else None
    return SweepCurve(
        name=name,
        role=role,
        points=[point(int(step)) for step in kept],
        nfr_at_new_error=None if at_new_error is None else at_new_error.nfr,
        at_new_error=at_new_error,
    )


def count_steps(
    at: FloatArray,
    sample: NDArray[np.int64],
    change: NDArray[np.int64],
    before: NDArray[np.bool_],
    of_old: NDArray[np.bool_],
    to_keep: NDArray[np.bool_],
) -> BiasSteps:
    """Count wrong answers as a bias grows, from the biases at which an answer changes.

    >>> steps = count_steps(
    ...     at=np.array([1.5]),
    ...     sample=np.array([0]),
    ...     change=np.array([1]),
    ...     before=np.array([False, True]),
    ...     of_old=np.array([True, True]),
    ...     to_keep=np.array([True, False]),
    ... )
    >>> steps.biases.tolist(), steps.flips.tolist(), steps.wrong_old.tolist()
    ([0.0, 1.5], [0, 1], [1, 2])

    Args:
        at: (E,) positive biases at which one sample's answer becomes right or wrong.
        sample: (E,) whose answer that is.
        change: (E,) 1 where it becomes wrong, -1 where it becomes right, 0 where it stays what it was.
        before: (N,) wrong answers without a bias.
        of_old: (N,) samples of old classes. to_keep: (N,) of these, the ones that the old model got right.
    """
    order = np.argsort(at, kind="stable")
    bias, sample, change = at[order], sample[order], change[order]
    # Samples that cross at one bias cross together: a step of the curve ends with the last of them.
    is_last = np.append(bias[1:] != bias[:-1], True)[: bias.size]
    ends = np.flatnonzero(is_last)

    def wrong(among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Wrong answers among some samples: at no bias, and from each crossing on."""
        start = int((before & among).sum())
        return np.append(start, start + np.cumsum(change * among[sample])[ends])

    return BiasSteps(np.append(0.0, bias[ends]), wrong(to_keep), wrong(of_old), wrong(~of_old))


def _steps_of_sweep(
    scores: Scores, truth: NDArray[np.int64], of_old: NDArray[np.bool_], to_keep: NDArray[np.bool_]
) -> BiasSteps | None:
    """The steps of one bias for all new classes; None where no bias changes an answer."""
    crossing = _crossings(scores)
    moving = np.flatnonzero((crossing > 0) & np.isfinite(crossing))
    if not moving.size:
        return None
    new_answer_wrong = scores.new_answer != truth
    old_answer_wrong = scores.old_answer != truth
    # A crossing of 0: the answer is an old class without any bias.
    before = np.where(crossing > 0, new_answer_wrong, old_answer_wrong)
    change = old_answer_wrong[moving].astype(np.int64) - new_answer_wrong[moving]
    return count_steps(crossing[moving], moving, change, before, of_old, to_keep)


def _crossings(scores: Scores) -> FloatArray:
    """(N,) smallest bias at which each sample is answered with an old class; infinite where none does it.

    That is the gap between its two logits but for rounding: the difference of logit and bias is rounded, too,
    and at a tie the first column wins. So it is found by bisection over the bit patterns of the non-negative
    doubles, which sort like the numbers; 63 halvings reach two adjacent ones.
    """
    crossing = np.zeros(len(scores.new_logit))
    answered_new = ~_answered_old(scores, slice(None), bias=crossing)
    rows = np.flatnonzero(answered_new)
    largest = np.full(rows.size, np.finfo(np.float64).max)
    low, high = np.zeros(rows.size, dtype=np.int64), largest.view(np.int64)
    never = ~_answered_old(scores, rows, bias=largest)
    for _ in range(63):
        middle = low + (high - low) // 2
        over = _answered_old(scores, rows, bias=middle.view(np.float64))
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    crossing[rows] = np.where(never, np.inf, high.view(np.float64))
    return crossing


def _answered_old(scores: Scores, rows: NDArray[np.int64] | slice, bias: FloatArray) -> NDArray[np.bool_]:
    """(n,) samples that are answered with an old class once (n,) `bias` is taken off the new ones."""
    with np.errstate(over="ignore"):
        shifted = scores.new_logit[rows] - bias
    old = scores.old_logit[rows]
    answered_old: NDArray[np.bool_] = (shifted < old) | ((shifted == old) & scores.old_first[rows])
    return answered_old
