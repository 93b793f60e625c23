"""The temperature against a grid of them, and what it leaves as it is."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.temperature import fit_temperature, nll
from tests.evaluation.made_up import made_up


def test_no_other_temperature_fits_better() -> None:
    samples = made_up(500, 0)
    found = fit_temperature(7 * samples.logits, samples.truth)
    best = nll(7 * samples.logits / found, samples.truth)
    assert all(best <= nll(7 * samples.logits / t, samples.truth) + 1e-9 for t in np.geomspace(0.05, 50, 200))
    # Logits that are seven times too large need a temperature that is seven times as high.
    assert found == pytest.approx(7 * fit_temperature(samples.logits, samples.truth), rel=1e-3)


def test_by_hand() -> None:
    """Three of four right at one gap g: sigmoid(g / T) = 3/4, T = g / ln 3."""
    logits = np.array([[2.0, 0.0]] * 4 + [[9.0, 0.0]])
    truth = np.array([0, 0, 0, 1, -1])  # the model does not know the last one
    assert fit_temperature(logits, truth) == pytest.approx(2 / np.log(3), rel=1e-4)


def test_without_a_sample_that_it_knows_nothing_is_changed() -> None:
    assert fit_temperature(np.zeros((2, 3)), np.array([-1, -1])) == 1.0
