"""Calibration errors of confidence: ECE, adaptive ECE, MCE, and the bins of a reliability diagram."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import NonFiniteError
from mptctl.evaluation.flip_report import Bin

# As in Liu et al., "The Devil is in the Margin" (CVPR 2022), section 4, for ECE and AECE.
BINS = 15


class Calibration(NamedTuple):
    """Calibration errors of one model.

    Attributes:
        ece: expected calibration error, a fraction.
        aece: adaptive calibration error, a fraction.
        mce: maximum calibration error: the largest gap of the bins.
        bins: the bins of equal width, of which `ece` and `mce` are made.
    """

    ece: float
    aece: float
    mce: float
    bins: list[Bin]


def calibrate(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> Calibration:
    """Compute the calibration errors of one model's answers to at least one sample.

    ECE and MCE use bins of equal width (Naeini et al. 2015), AECE bins of about equal count (Nguyen and
    O'Connor 2015). A bin holds low < confidence <= high; the first bin also holds its lower edge. So every
    sample is in a bin, also the smallest confidence, at which the adaptive bins begin.

    >>> calibrate(np.array([1.0, 1.0]), np.array([True, False])).ece  # sure of both, and right of one
    0.5

    Args:
        confidence: (N,) probability of the answer, 0 to 1.
        right: (N,) True where the answer is right.

    Raises:
        NonFiniteError: a confidence is NaN.
    """
    if np.isnan(confidence).any():
        raise NonFiniteError(
            f"{int(np.isnan(confidence).sum())} confidences are NaN: look at the model's logits"
        )
    edges_of_equal_width = np.linspace(0, 1, BINS + 1)
    # Interpolated between the sorted confidences, as in torrvision/focal_calibration (Mukhoti et al. 2020),
    # so that the bins share the samples about evenly; the last edge is the largest confidence.
    edges_of_equal_count = np.interp(
        np.linspace(0, confidence.size, BINS + 1), np.arange(confidence.size), np.sort(confidence)
    )
    bins = _fill_bins(confidence, right, edges_of_equal_width)
    adaptive = _fill_bins(confidence, right, edges_of_equal_count)
    return Calibration(_mean_gap(bins), _mean_gap(adaptive), max(_gaps(bins)), bins)


def place_in_bins(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index of each value's bin, in the shape of `values`.

    Bin i holds edges[i] < value <= edges[i + 1], and bin 0 its lower edge, too. A value beyond the edges goes
    to the first or the last bin.

    >>> place_in_bins(np.array([0.0, 0.5, 0.51]), np.linspace(0, 1, 3)).tolist()
    [0, 0, 1]
    """
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2)


def _fill_bins(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], edges: NDArray[np.float64]
) -> list[Bin]:
    """Put (N,) samples into the bins between some edges, with mean confidence and accuracy of each bin."""
    bin_of = place_in_bins(confidence, edges)
    n = np.bincount(bin_of, minlength=edges.size - 1)
    confidence_sums = np.bincount(bin_of, weights=confidence, minlength=n.size)
    right_counts = np.bincount(bin_of, weights=right, minlength=n.size)
    return [
        Bin(
            low=float(edges[i]),
            high=float(edges[i + 1]),
            n=int(n[i]),
            confidence=float(confidence_sums[i] / n[i]) if n[i] else None,
            accuracy=float(right_counts[i] / n[i]) if n[i] else None,
        )
        for i in range(n.size)
    ]


def _gaps(bins: list[Bin]) -> list[float]:
    """The distance of accuracy and mean confidence of each bin with samples; empty bins are left out."""
    return [
        abs(b.accuracy - b.confidence) for b in bins if b.accuracy is not None and b.confidence is not None
    ]


def _mean_gap(bins: list[Bin]) -> float:
    """The mean of the bins' gaps, each weighted by the samples in its bin."""
    sizes = [b.n for b in bins if b.n]
    return sum(n * gap for n, gap in zip(sizes, _gaps(bins), strict=True)) / sum(sizes)
