"""Likelihood, Brier score and class-wise calibration error of one model's logits, in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.calibration.bins import BINS, place_in_bins
from mptctl.evaluation.reading.logits import row_blocks


class ProbabilityScores(NamedTuple):
    """Scores of the probabilities that one model gives to N samples.

    Attributes:
        confidence: (N,) probability of the answer.
        nll: mean of -log p of the true class; infinity where the true class of a sample has probability 0.
        brier: mean over samples of the sum over classes of (p - 1(true))^2, 0 to 2 (Brier 1950).
        cwece: class-wise calibration error: mean over classes k of the calibration error of p_k, in 15 bins
            of equal width (Kull et al. 2019).
    """

    confidence: NDArray[np.float64]
    nll: float
    brier: float
    cwece: float


def score_probabilities(
    logits: NDArray[Any], truth: NDArray[np.int64], temperature: float = 1.0
) -> ProbabilityScores:
    """Score the probabilities softmax(logits / temperature).

    >>> even = score_probabilities(np.zeros((2, 2)), np.array([0, 1]))
    >>> round(even.nll, 4), even.brier  # log 2, and 2 / 4
    (0.6931, 0.5)

    Args:
        logits: (N, C), N and C at least 1, any float type; minus infinity is a class that is never answered.
        truth: (N,) column of the true class.
        temperature: above 0.
    """
    n, classes = logits.shape
    edges = np.linspace(0, 1, BINS + 1)
    confidence, nll, brier = np.empty((3, n))
    # Over all samples, by class and bin of p_class: sum of p, and how often the class is the true one.
    p_sums, true_counts = np.zeros((2, classes * BINS))
    for rows in row_blocks(logits):
        with np.errstate(over="ignore"):
            z = shift_to_zero(logits[rows]) / temperature
        p = np.exp(z)
        total = p.sum(axis=1)
        p /= total[:, None]
        label = truth[rows, None]
        confidence[rows] = 1 / total
        p_true = np.take_along_axis(p, label, axis=1)[:, 0]
        nll[rows] = np.log(total) - np.take_along_axis(z, label, axis=1)[:, 0]
        brier[rows] = np.square(p).sum(axis=1) - p_true**2 + (1 - p_true) ** 2
        bins = np.arange(classes) * BINS + place_in_bins(p, edges)
        p_sums += np.bincount(bins.ravel(), weights=p.ravel(), minlength=p_sums.size)
        true_counts += np.bincount(np.take_along_axis(bins, label, axis=1)[:, 0], minlength=p_sums.size)
    # For a bin b with n_b samples, its share times its gap is |true_counts - p_sums| / N: n_b cancels.
    cwece = float(np.abs(true_counts - p_sums).sum() / n / classes)
    return ProbabilityScores(confidence, float(nll.mean()), float(brier.mean()), cwece)


def shift_to_zero(block: NDArray[Any]) -> NDArray[np.float64]:
    """Copy a block of logits in double precision, each row shifted so that its largest logit is 0."""
    z = np.array(block, dtype=np.float64)
    with np.errstate(over="ignore"):  # a difference that overflows is infinite
        z -= z.max(axis=1, keepdims=True)
    return z
