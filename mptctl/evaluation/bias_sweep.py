"""What is free: a bias taken off the new classes' logits after training, NFR against error as a curve."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import SweepCurve, SweepPoint
from mptctl.evaluation.scores import FloatArray, Scores

# Steps of a curve that a report keeps: more than a figure can show. The minimum is taken over all of them.
POINTS = 200


def sweep_bias(
    name: str,
    role: Literal["new", "baseline"],
    scores: Scores,
    truth: NDArray[np.int64],
    of_old: NDArray[np.bool_],
    old_right: NDArray[np.bool_],
    new_error: float,
) -> SweepCurve | None:
    """Rates of one model over every bias from zero to the one that leaves no answer to be taken.

    The rates change only where a sample's answer goes over to an old class. They are counted at each of
    these crossings, so that the curve is exact.

    The bias is read off the test samples themselves: this is the most that such a correction could do,
    which is what a trained model should be held against.

    Args:
        scores: of the model whose logits are biased; minus infinities may be among them, NaN may not.
        truth: (N,) true labels. of_old: (N,) samples of old classes. old_right: (N,) right old answers.
        new_error: error on all samples of the model that is judged, as a fraction.

    Returns:
        None where no bias changes an answer.
    """
    crossing = _crossings(scores)
    moving = np.flatnonzero((crossing > 0) & np.isfinite(crossing))
    if not moving.size:
        return None
    order = moving[np.argsort(crossing[moving])]
    bias = crossing[order]
    # Samples that cross at one bias cross together: a step of the curve ends with the last of them.
    ends = np.flatnonzero(np.append(bias[1:] != bias[:-1], True))
    wrong_new = scores.new_answer != truth
    wrong_old = scores.old_answer != truth
    before = np.where(crossing > 0, wrong_new, wrong_old)
    change = wrong_old[order].astype(np.int64) - wrong_new[order]

    def wrong(among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Wrong answers among some samples: at no bias, and from each crossing on."""
        start = int((before & among).sum())
        return np.append(start, start + np.cumsum(change * among[order])[ends])

    biases = np.append(0.0, bias[ends])
    flips = wrong(of_old & old_right)
    old, new = wrong(of_old), wrong(~of_old)
    n, n_old = len(truth), int(of_old.sum())
    error = (old + new) / n

    def point(step: int) -> SweepPoint:
        return SweepPoint(
            bias=float(biases[step]),
            nfr=float(flips[step] / n_old),
            er_old_classes=float(old[step] / n_old),
            er_new_classes=None if n_old == n else float(new[step] / (n - n_old)),
            er_all=float(error[step]),
        )

    reached = np.flatnonzero(error <= new_error)
    # Of equally few flips the step with the lowest error, and of these the smallest bias.
    best = reached[np.lexsort((reached, error[reached], flips[reached]))[:1]]
    shown = np.linspace(0, len(biases) - 1, min(POINTS, len(biases))).astype(np.int64)
    steps = np.unique(np.concatenate([shown, best, [int(error.argmin())]]))
    at_new_error = point(int(best[0])) if best.size else None
    return SweepCurve(
        name=name,
        role=role,
        points=[point(int(step)) for step in steps],
        nfr_at_new_error=None if at_new_error is None else at_new_error.nfr,
        at_new_error=at_new_error,
    )


def _crossings(scores: Scores) -> FloatArray:
    """(N,) smallest bias at which each sample is answered with an old class; infinite where none does it.

    That is the gap between its two logits but for rounding: the difference of logit and bias is rounded, too,
    and at a tie the first column wins. So it is searched among the numbers themselves. Those of one sign
    are in the order of their bits, and 63 halvings lead from 0 and the largest one to two neighbours.
    """
    crossing = np.zeros(len(scores.new_logit))
    rows = np.flatnonzero(~_to_old(scores, slice(None), crossing))
    largest = np.full(rows.size, np.finfo(np.float64).max)
    low, high = np.zeros(rows.size, dtype=np.int64), largest.view(np.int64)
    never = ~_to_old(scores, rows, largest)
    for _ in range(63):
        middle = low + (high - low) // 2
        over = _to_old(scores, rows, middle.view(np.float64))
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    crossing[rows] = np.where(never, np.inf, high.view(np.float64))
    return crossing


def _to_old(scores: Scores, rows: NDArray[np.int64] | slice, bias: FloatArray) -> NDArray[np.bool_]:
    """Which of some samples are answered with an old class once (n,) `bias` is taken off the new ones."""
    with np.errstate(over="ignore"):
        shifted = scores.new_logit[rows] - bias
    old = scores.old_logit[rows]
    to_old: NDArray[np.bool_] = (shifted < old) | ((shifted == old) & scores.old_first[rows])
    return to_old
