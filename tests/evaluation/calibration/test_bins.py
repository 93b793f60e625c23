"""Calibration errors against a table made by hand, and against torchmetrics where it computes the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mptctl.errors import NonFiniteError
from mptctl.evaluation.calibration.bins import calibrate


def test_a_table_by_hand() -> None:
    # Width 1/15: .35 lies in (1/3, .4], .40 in the same bin (its upper edge counts), .95 and 1.0 in the last.
    confidence = np.array([0.35, 0.4, 0.95, 1.0, 1.0])
    right = np.array([True, False, True, True, False])
    found = calibrate(confidence, right)
    assert [(i, b.n) for i, b in enumerate(found.bins) if b.n] == [(5, 2), (14, 3)]
    # |1/2 - .375| * 2/5 + |2/3 - 2.95/3| * 3/5
    assert found.ece == pytest.approx(0.125 * 2 / 5 + (2.95 / 3 - 2 / 3) * 3 / 5)
    # Five samples in fifteen adaptive bins: all alone but the two at 1.0, which share a value.
    assert found.aece == pytest.approx((0.65 + 0.4 + 0.05 + 2 * 0.5) / 5)


def test_adaptive_bins_share_the_samples_evenly() -> None:
    # 30 samples: an edge on every second one, which belongs to the bin below it; the first bin has its lower edge.
    confidence = np.linspace(0.1, 0.97, 30)
    right = np.arange(30) % 2 == 0
    found = calibrate(confidence, right)
    bins = [[0, 1, 2], *([i, i + 1] for i in range(3, 29, 2)), [29]]
    assert len(bins) == 15
    gaps = [len(b) * abs(confidence[b].mean() - right[b].mean()) for b in bins]
    assert found.aece == pytest.approx(sum(gaps) / 30)


def test_aece_is_that_of_the_paper_but_for_the_smallest_confidence() -> None:
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.01, 0.99, 1000)
    right = rng.uniform(size=1000) < confidence**2
    edges = np.interp(np.linspace(0, 1000, 16), np.arange(1000), np.sort(confidence))
    theirs = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        theirs += abs(confidence[inside].mean() - right[inside].mean()) * inside.mean()
    found = calibrate(confidence, right)
    assert found.aece == pytest.approx(theirs, abs=1 / 1000)


def test_nan_is_refused() -> None:
    with pytest.raises(NonFiniteError, match="2 confidences are NaN"):
        calibrate(np.array([np.nan, 0.5, np.nan]), np.array([True, True, False]))
