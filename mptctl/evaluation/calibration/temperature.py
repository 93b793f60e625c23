"""Temperature scaling: logits divided by one number, fitted on held-out samples, to calibrate confidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.calibration.probabilities import shift_to_zero
from mptctl.evaluation.reading.logits import row_blocks

# Temperatures outside 1/LIMIT to LIMIT make every answer certain, or all classes alike: the fit diverges.
LIMIT = 1024.0


class TemperatureFit(NamedTuple):
    """A temperature, or the reason why there is none.

    Attributes:
        temperature: divisor of the logits; None where the fit failed.
        failure: why the fit failed, to be written after "no temperature: "; None where it did not fail.
    """

    temperature: float | None
    failure: str | None = None


def fit_temperature(logits: NDArray[Any], truth: NDArray[np.int64]) -> TemperatureFit:
    """Fit the temperature T with the smallest mean of -log softmax(logits / T)[y] (Guo et al. 2017).

    That mean is convex in 1/T. Its slope in 1/T is the mean of sum_k p_k l_k - l_y, and T is where the slope
    is 0. The fit fails, with a reason, if there is no sample, if all are of one class, or if it diverges.

    >>> logits = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> fitted = fit_temperature(logits, np.array([0, 0, 1, 1]))
    >>> round(fitted.temperature, 4)  # three of four are right: softmax(2 / T) = 3 / 4, so that T = 2 / log 3
    1.8205

    Args:
        logits: (N, C) of held-out samples, any float type.
        truth: (N,) column of the true class.
    """
    if not len(truth):
        return TemperatureFit(None, "no validation sample is of a class that the model knows")
    if len(np.unique(truth)) == 1:
        return TemperatureFit(None, "all validation samples are of one class")
    behind = _distance_behind(logits, truth)
    if np.isinf(behind).any():
        count = int(np.isinf(behind).sum())
        return TemperatureFit(
            None, f"{count} validation samples are of a class to which the model gives probability 0"
        )
    if slope(0.0, logits, truth) >= 0:
        return TemperatureFit(
            None,
            "the fit diverges: on the validation samples the true class has no larger logit than classes "
            "have on average, and a higher temperature is always better",
        )
    certain = (
        "the fit diverges: nearly all validation predictions are right, and a lower temperature is always "
        "better"
    )
    # This case is tested by itself: at very low temperatures the slope is lost in rounding.
    if not behind.any():
        return TemperatureFit(None, certain)
    from scipy.optimize import brentq  # takes a third of a second to import

    low = high = 1.0
    while slope(high, logits, truth) < 0 and high < LIMIT:
        low, high = high, 2 * high
    while slope(low, logits, truth) > 0 and low > 1 / LIMIT:
        low, high = low / 2, low
    if slope(high, logits, truth) < 0:
        return TemperatureFit(None, certain)
    if slope(low, logits, truth) > 0:
        return TemperatureFit(None, f"the fit diverges: the temperature would be above {LIMIT:g}")
    return TemperatureFit(1 / float(brentq(slope, low, high, args=(logits, truth), xtol=1e-12)))


def slope(inverse: float, logits: NDArray[Any], truth: NDArray[np.int64]) -> float:
    """Compute the derivative by 1/T of the mean of -log softmax(logits / T)[y].

    Args:
        inverse: 1/T, at which the derivative is taken.
        logits: (N, C).
        truth: (N,) column of the true class y.
    """
    total = 0.0
    for rows in row_blocks(logits):
        z = shift_to_zero(logits[rows])
        possible = np.isfinite(z)
        z = np.where(possible, z, 0.0)
        with np.errstate(over="ignore"):
            p = np.where(possible, np.exp(inverse * z), 0.0)
        expected = (p * z).sum(axis=1) / p.sum(axis=1)
        total += float((expected - np.take_along_axis(z, truth[rows, None], axis=1)[:, 0]).sum())
    return total / len(truth)


def _distance_behind(logits: NDArray[Any], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) the largest logit minus that of the true class; 0 where the true class has the largest logit."""
    behind = np.empty(len(truth))
    for rows in row_blocks(logits):
        behind[rows] = -np.take_along_axis(shift_to_zero(logits[rows]), truth[rows, None], axis=1)[:, 0]
    return behind
