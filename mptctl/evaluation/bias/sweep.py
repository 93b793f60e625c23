"""The bias sweep: NFR and error at every bias taken off the new classes' logits after training."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import SweepCurve, SweepPoint
from mptctl.evaluation.pairing.scores import FloatArray, Scores

# Most points of a curve in a report, which is more than a figure can show. Minima are taken over all steps.
POINTS = 200


class BiasSteps(NamedTuple):
    """Counts of wrong answers in S steps: ranges of the bias within which no answer becomes right or wrong.

    Attributes:
        biases: (S,) where each step begins, increasing from 0; it ends where the next one begins.
        flips: (S,) wrong answers to samples of old classes that the old model got right.
        wrong_old: (S,) wrong answers to samples of old classes.
        wrong_new: (S,) wrong answers to samples of new classes.
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
    """Compute the rates of one model at every bias, from zero to the one above which no answer changes.

    The rates change only where the answer to a sample changes from a new to an old class. They are counted at
    each of these biases, so the curve is exact. The best bias is chosen on the test samples themselves, so it
    shows the most that such a correction could do.

    Args:
        name: of the model, for the curve.
        role: of the model.
        scores: of the model whose logits are shifted; logits may be minus infinity, but not NaN.
        truth: (N,) true labels.
        of_old: (N,) True for samples of old classes.
        to_keep: (N,) True for samples of old classes that the old model got right.
        error_limit: a fraction; the best point may err at most this much on all samples.

    Returns:
        The curve, and on it the point with the fewest flips among those within `error_limit`; None where no
        bias changes an answer.
    """
    steps = _count_sweep_steps(scores, truth, of_old, to_keep)
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
    # The fewest flips come first, then the lowest error, then the smallest bias.
    best_first = np.lexsort((within_limit, error[within_limit], steps.flips[within_limit]))
    best = within_limit[best_first[:1]]
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
    crossing: FloatArray,
    sample: NDArray[np.int64],
    change: NDArray[np.int64],
    wrong_before: NDArray[np.bool_],
    of_old: NDArray[np.bool_],
    to_keep: NDArray[np.bool_],
) -> BiasSteps:
    """Count wrong answers as a bias grows from 0, given where answers to N samples become right or wrong.

    >>> steps = count_steps(
    ...     crossing=np.array([1.5]),
    ...     sample=np.array([0]),
    ...     change=np.array([1]),
    ...     wrong_before=np.array([False, True]),
    ...     of_old=np.array([True, True]),
    ...     to_keep=np.array([True, False]),
    ... )
    >>> steps.biases.tolist(), steps.flips.tolist(), steps.wrong_old.tolist()
    ([0.0, 1.5], [0, 1], [1, 2])

    Args:
        crossing: (E,) positive biases at which the answer to one sample changes.
        sample: (E,) the index of that sample; a sample may occur several times.
        change: (E,) 1 where its answer becomes wrong, -1 where it becomes right, 0 where neither.
        wrong_before: (N,) True where the answer without a bias is wrong.
        of_old: (N,) True for samples of old classes.
        to_keep: (N,) True for samples of old classes that the old model got right.
    """
    order = np.argsort(crossing, kind="stable")
    bias, sample, change = crossing[order], sample[order], change[order]
    # Answers that change at one bias change together, so only the last of equal biases ends a step.
    is_last = np.append(bias[1:] != bias[:-1], True)[: bias.size]
    ends = np.flatnonzero(is_last)

    def count_wrong(among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the wrong answers among some samples, without a bias and from each crossing on."""
        start = int((wrong_before & among).sum())
        return np.append(start, start + np.cumsum(change * among[sample])[ends])

    return BiasSteps(
        np.append(0.0, bias[ends]), count_wrong(to_keep), count_wrong(of_old), count_wrong(~of_old)
    )


def _count_sweep_steps(
    scores: Scores, truth: NDArray[np.int64], of_old: NDArray[np.bool_], to_keep: NDArray[np.bool_]
) -> BiasSteps | None:
    """Count the steps of one bias common to all new classes; None where no bias changes an answer."""
    crossing = _find_crossings(scores)
    moving = np.flatnonzero((crossing > 0) & np.isfinite(crossing))
    if not moving.size:
        return None
    new_answer_wrong = scores.new_answer != truth
    old_answer_wrong = scores.old_answer != truth
    # At a crossing of 0 the answer is an old class without any bias.
    wrong_before = np.where(crossing > 0, new_answer_wrong, old_answer_wrong)
    change = old_answer_wrong[moving].astype(np.int64) - new_answer_wrong[moving]
    return count_steps(crossing[moving], moving, change, wrong_before, of_old, to_keep)


def _find_crossings(scores: Scores) -> FloatArray:
    """(N,) the smallest bias at which each sample is answered with an old class; infinite where none is.

    But for rounding that is the largest new logit minus the largest old one. Since new logit minus bias is
    rounded, too, and the first column wins a tie, the bias is found by bisection over the bit patterns of
    non-negative doubles, which have the order of the numbers. 63 halvings lead to two adjacent doubles.
    """
    crossing = np.zeros(len(scores.new_logit))
    rows = np.flatnonzero(~_is_answered_old(scores, slice(None), bias=crossing))
    largest = np.full(rows.size, np.finfo(np.float64).max)
    low, high = np.zeros(rows.size, dtype=np.int64), largest.view(np.int64)
    is_never_old = ~_is_answered_old(scores, rows, bias=largest)
    for _ in range(63):
        middle = low + (high - low) // 2
        is_old = _is_answered_old(scores, rows, bias=middle.view(np.float64))
        low, high = np.where(is_old, low, middle), np.where(is_old, middle, high)
    crossing[rows] = np.where(is_never_old, np.inf, high.view(np.float64))
    return crossing


def _is_answered_old(scores: Scores, rows: NDArray[np.int64] | slice, bias: FloatArray) -> NDArray[np.bool_]:
    """(n,) True where a sample is answered with an old class once its (n,) `bias` is taken off new classes.

    Args:
        scores: of all samples.
        rows: the n samples, by index.
        bias: (n,) one for each sample.
    """
    with np.errstate(over="ignore"):
        new = scores.new_logit[rows] - bias
    old = scores.old_logit[rows]
    return np.asarray((new < old) | ((new == old) & scores.old_first[rows]))
