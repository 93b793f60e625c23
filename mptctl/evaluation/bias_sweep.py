"""What is free: a bias taken off the new classes' logits after training, NFR against error as a curve."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.scores import Scores
from mptctl.evaluation.summary import SweepCurve, SweepPoint

POINTS = 41


def sweep_bias(
    name: str,
    role: Literal["new", "baseline"],
    scores: Scores,
    truth: NDArray[np.int64],
    of_old: NDArray[np.bool_],
    old_right: NDArray[np.bool_],
    new_error: float,
) -> SweepCurve | None:
    """Rates of one model over biases from zero to the one that takes 99 % of the new classes' answers.

    The bias is read off the test samples themselves: this is the most that such a correction could do,
    which is what a trained model should be held against.

    Args:
        scores: of the model whose logits are biased.
        truth: (N,) true labels. of_old: (N,) samples of old classes. old_right: (N,) right old answers.
        new_error: error on all samples of the model that is judged, as a fraction.

    Returns:
        None where no sample is answered with a new class, so that there is nothing to take off.
    """
    gap = scores.new_logit - scores.old_logit
    positive = gap[(gap > 0) & np.isfinite(gap)]
    if not positive.size:
        return None
    points = []
    for bias in np.linspace(0, float(np.quantile(positive, 0.99)), POINTS):
        shifted = scores.new_logit - bias
        to_old = (scores.old_logit > shifted) | ((scores.old_logit == shifted) & scores.old_first)
        wrong = np.where(to_old, scores.old_answer, scores.new_answer) != truth
        points.append(
            SweepPoint(
                bias=float(bias),
                nfr=float((wrong & old_right & of_old).sum() / of_old.sum()),
                er_old_classes=float(wrong[of_old].mean()),
                er_new_classes=None if of_old.all() else float(wrong[~of_old].mean()),
                er_all=float(wrong.mean()),
            )
        )
    reached = [point.nfr for point in points if point.er_all <= new_error]
    return SweepCurve(name=name, role=role, points=points, nfr_at_new_error=min(reached, default=None))
