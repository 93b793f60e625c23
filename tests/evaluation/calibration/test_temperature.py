"""Temperature scaling: the optimum by other means, and every way in which there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from mptctl.evaluation.calibration.temperature import fit_temperature, slope
from tests.evaluation.calibration.test_probabilities import random_logits


def nll(temperature: float, logits: np.ndarray, truth: np.ndarray) -> float:
    z = logits / temperature
    z = z - z.max(1, keepdims=True)
    return float((np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), truth]).mean())


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 7.0, 200.0])
def test_it_minimises_the_likelihood(scale: float) -> None:
    logits, truth = random_logits(seed=4)
    logits = logits * scale
    fit = fit_temperature(logits, truth)
    assert fit.failure is None
    assert fit.temperature is not None
    search = minimize_scalar(
        lambda t: nll(math.exp(t), logits, truth), bounds=(-9, 9), method="bounded", options={"xatol": 1e-9}
    )
    assert math.log(fit.temperature) == pytest.approx(search.x, abs=1e-5)
    assert nll(fit.temperature, logits, truth) <= search.fun + 1e-12
    assert abs(slope(1 / fit.temperature, logits, truth)) < 1e-9 * max(1, scale)


def test_a_class_that_is_never_answered_is_no_obstacle() -> None:
    logits = np.array([[1.0, 0.0, -np.inf], [1.0, 0.0, -np.inf], [0.0, 1.0, -np.inf], [0.0, 1.0, -np.inf]])
    assert fit_temperature(logits, np.array([0, 0, 1, 0])).temperature == pytest.approx(1 / math.log(3))


ONE_WRONG = np.array([[1e-3, 0], [0, 1e-3], [1e-3, 0], [1e-9, 0]])


@pytest.mark.parametrize(
    ("logits", "truth", "said"),
    [
        *((scale * np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 0], "predictions are right") for scale in (1e-3, 1.0, 1e4)),
        (ONE_WRONG, [0, 1, 0, 1], "lower temperature"),
        (np.eye(2)[[1, 0]], [0, 1], "higher temperature"),
        (np.zeros((2, 2)), [0, 1], "higher temperature"),
        (np.empty((0, 2)), [], "no validation sample"),
        (np.array([[0.0, -np.inf], [0.0, -np.inf]]), [0, 1], "1 validation samples are of a class"),
    ],
)  # fmt: skip
def test_where_there_is_no_best_temperature(logits: np.ndarray, truth: list[int], said: str) -> None:
    """All, or all but one, are right; no better than chance; no sample; a true class of probability 0."""
    fit = fit_temperature(logits, np.array(truth, dtype=np.int64))
    assert fit.temperature is None and fit.failure is not None and said in fit.failure


def test_logits_whose_exponential_overflows() -> None:
    logits, truth = random_logits(500, seed=2)
    fit, large = fit_temperature(logits, truth), fit_temperature(logits * 300 + 1e6, truth)
    assert fit.temperature is not None
    assert large.temperature == pytest.approx(300 * fit.temperature, rel=1e-6)
