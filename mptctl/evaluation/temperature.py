"""The temperature at which a model's probabilities fit best; it changes calibration and no answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

# Natural logarithm of the hottest and, with a minus, the coldest temperature: 1/55 to 55.
LOG_REACH = 4.0


def fit_temperature(logits: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """The T that makes the mean of -log softmax(z / T)[y] least (Guo et al., ICML 2017).

    Args:
        logits: (N, C) of at least one sample; minus infinities may be among them.
        truth: (N,) column of the true class; samples with -1, which the model does not know, do not count.
    """
    known = truth >= 0
    z, y = logits[known], truth[known]
    if not len(z):
        return 1.0
    found = minimize_scalar(
        lambda log_t: nll(z / np.exp(log_t), y), bounds=(-LOG_REACH, LOG_REACH), method="bounded"
    )
    return float(np.exp(found.x))


def nll(logits: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """Mean of -log softmax(z)[y] over samples: (N, C) logits and (N,) columns."""
    own = np.take_along_axis(logits, truth[:, None], axis=1)[:, 0]
    return float(np.mean(logsumexp(logits, axis=1) - own))
