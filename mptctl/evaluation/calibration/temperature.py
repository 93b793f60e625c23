"""Temperature scaling: the one number that makes confidence mean most, fitted on held-out samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from mptctl.evaluation.calibration.probabilities import shifted
from mptctl.evaluation.reading.predictions import row_blocks

# A temperature beyond 1/LIMIT to LIMIT makes every answer certain, or all of them alike: the fit diverges.
LIMIT = 1024.0


class TemperatureFit(NamedTuple):
    """A temperature, or why there is none.

    Attributes:
        temperature: what logits are divided by; None where the fit failed.
        failure: the reason, in words that follow on "no temperature: "; None where it did not.
    """

    temperature: float | None
    failure: str | None = None


def fit_temperature(logits: NDArray[Any], truth: NDArray[np.int64]) -> TemperatureFit:
    """The temperature T with the smallest mean of -log softmax(logits / T)[y] (Guo et al. 2017).

    That mean is convex in 1/T, and its slope there is the mean of sum_k p_k l_k - l_y: where the slope is 0,
    is T.

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
    behind = _behind(logits, truth)
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
    # Asked for itself, since far out the slope is lost in rounding.
    if not behind.any():
        return TemperatureFit(None, certain)
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
    """Derivative of the mean negative log-likelihood by 1/T.

    Args:
        inverse: 1/T.
        logits, truth: as in `fit_temperature`.
    """
    total = 0.0
    for rows in row_blocks(logits):
        z = shifted(logits[rows])
        possible = np.isfinite(z)
        z = np.where(possible, z, 0.0)
        with np.errstate(over="ignore"):
            p = np.where(possible, np.exp(inverse * z), 0.0)
        expected = (p * z).sum(axis=1) / p.sum(axis=1)
        total += float((expected - np.take_along_axis(z, truth[rows, None], axis=1)[:, 0]).sum())
    return total / len(truth)


def _behind(logits: NDArray[Any], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) distance of the true class's logit from the largest one; 0 where the answer is right or ties."""
    behind = np.empty(len(truth))
    for rows in row_blocks(logits):
        behind[rows] = -np.take_along_axis(shifted(logits[rows]), truth[rows, None], axis=1)[:, 0]
    return behind
