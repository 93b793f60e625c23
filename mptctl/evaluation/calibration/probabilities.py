"""Likelihood, Brier score and class-wise calibration of one model's logits, in one pass over blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.calibration.bins import BINS, place_in_bins
from mptctl.evaluation.reading.predictions import row_blocks


class ProbabilityScores(NamedTuple):
    """Scores of the probabilities of one model.

    Attributes:
        confidence: (N,) probability of the answer.
        nll: mean of -log p of the true class; infinity where one of them has probability 0.
        brier: mean over samples of the sum over classes of (p - 1(true))^2, 0 to 2 (Brier 1950).
        cwece: mean over classes of the calibration error of p_k, 15 bins of equal width (Kull et al. 2019).
    """

    confidence: NDArray[np.float64]
    nll: float
    brier: float
    cwece: float


def score_probabilities(
    logits: NDArray[Any], truth: NDArray[np.int64], temperature: float = 1.0
) -> ProbabilityScores:
    """Scores of softmax(logits / temperature).

    >>> even = score_probabilities(np.zeros((2, 2)), np.array([0, 1]))
    >>> round(even.nll, 4), even.brier  # log 2, and 2 / 4
    (0.6931, 0.5)

    Args:
        logits: (N, C), C at least 1, any float type; minus infinity is a class that is never answered.
        truth: (N,) column of the true class.
        temperature: above 0.
    """
    n, classes = logits.shape
    width = np.linspace(0, 1, BINS + 1)
    confidence, nll, brier = np.empty(n), np.empty(n), np.empty(n)
    summed, hits = np.zeros(classes * BINS), np.zeros(classes * BINS)
    for rows in row_blocks(logits):
        with np.errstate(over="ignore"):
            z = shifted(logits[rows]) / temperature
        p = np.exp(z)
        total = p.sum(axis=1)
        p /= total[:, None]
        label = truth[rows, None]
        confidence[rows] = 1 / total
        own = np.take_along_axis(p, label, axis=1)[:, 0]
        nll[rows] = np.log(total) - np.take_along_axis(z, label, axis=1)[:, 0]
        brier[rows] = np.square(p).sum(axis=1) - own**2 + (1 - own) ** 2
        bins = np.arange(classes) * BINS + place_in_bins(p, width)
        summed += np.bincount(bins.ravel(), weights=p.ravel(), minlength=summed.size)
        hits += np.bincount(np.take_along_axis(bins, label, axis=1)[:, 0], minlength=hits.size)
    # A bin's share times its gap, n_b / N * |hits / n_b - summed / n_b|, needs no n_b.
    return ProbabilityScores(
        confidence, float(nll.mean()), float(brier.mean()), float(np.abs(hits - summed).sum() / n / classes)
    )


def shifted(block: NDArray[Any]) -> NDArray[np.float64]:
    """A block of logits in double precision, shifted so that the largest of each row is 0."""
    z = np.array(block, dtype=np.float64)
    with np.errstate(over="ignore"):  # a distance beyond what a number can say is infinite
        z -= z.max(axis=1, keepdims=True)
    return z
