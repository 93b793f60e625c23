"""Does confidence mean what it says? ECE, adaptive ECE, MCE and the bins of a reliability diagram."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import NonFiniteError
from mptctl.evaluation.flip_report import Bin

# Liu et al., "The Devil is in the Margin" (CVPR 2022), section 4: both errors with 15 bins.
BINS = 15


class Calibration(NamedTuple):
    """Calibration errors in fractions, and the bins of equal width; `mce` is the largest gap of these."""

    ece: float
    aece: float
    mce: float
    bins: list[Bin]


def calibrate(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> Calibration:
    """Computes the calibration of one model's answers to at least one sample.

    confidence: (N,) probability of the answer, 0 to 1. right: (N,) whether the answer was right.
    ECE, MCE: bins of equal width (Naeini et al. 2015); AECE: bins of equal count (Nguyen and O'Connor 2015).
    A bin holds low < confidence <= high, the first one its lower edge too: without that, the smallest
    confidence, and every sample where all confidences are equal, would fall out of the adaptive bins.
    Raises NonFiniteError where a confidence is NaN.

    >>> calibrate(np.array([1.0, 1.0]), np.array([True, False])).ece  # sure of both, and right of one
    0.5
    """
    if np.isnan(confidence).any():
        raise NonFiniteError(
            f"{int(np.isnan(confidence).sum())} confidences are NaN: look at the model's logits"
        )
    width = np.linspace(0, 1, BINS + 1)
    # Edges between the sorted confidences, interpolated as in that paper's code so that the bins share the
    # samples evenly; the last edge is the largest confidence.
    count = np.interp(
        np.linspace(0, confidence.size, BINS + 1), np.arange(confidence.size), np.sort(confidence)
    )
    bins = _bins(confidence, right, width)
    return Calibration(_error(bins), _error(_bins(confidence, right, count)), max(_gaps(bins)), bins)


def place_in_bins(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each value, in the values' shape: low < value <= high; the first bin has both its edges.

    >>> place_in_bins(np.array([0.0, 0.5, 0.51]), np.linspace(0, 1, 3)).tolist()
    [0, 0, 1]
    """
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2)


def _bins(confidence: NDArray[np.float64], right: NDArray[np.bool_], edges: NDArray[np.float64]) -> list[Bin]:
    place = place_in_bins(confidence, edges)
    n = np.bincount(place, minlength=edges.size - 1)
    summed = np.bincount(place, weights=confidence, minlength=n.size)
    hits = np.bincount(place, weights=right, minlength=n.size)
    return [
        Bin(
            low=float(edges[i]),
            high=float(edges[i + 1]),
            n=int(n[i]),
            confidence=float(summed[i] / n[i]) if n[i] else None,
            accuracy=float(hits[i] / n[i]) if n[i] else None,
        )
        for i in range(n.size)
    ]


def _gaps(bins: list[Bin]) -> list[float]:
    """Distance of accuracy and mean confidence, of bins that hold a sample."""
    return [
        abs(b.accuracy - b.confidence) for b in bins if b.accuracy is not None and b.confidence is not None
    ]


def _error(bins: list[Bin]) -> float:
    held = [b.n for b in bins if b.n]
    return sum(n * gap for n, gap in zip(held, _gaps(bins), strict=True)) / sum(held)
