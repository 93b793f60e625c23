"""Likelihood, Brier score and class-wise calibration error: by hand, by other libraries, and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.calibration.probabilities import score_probabilities
from mptctl.evaluation.reading import logits as logit_rows


def random_logits(n: int = 3000, classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) * 2
    logits[np.arange(n), truth] += 1.5
    return logits, truth


def test_a_table_by_hand() -> None:
    # Three samples, two classes: probabilities .9/.1 (right), .6/.4 (wrong), .55/.45 (right).
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.45, 0.55]])
    truth = np.array([0, 1, 1])
    scores = score_probabilities(np.log(p), truth)
    assert scores.confidence == pytest.approx([0.9, 0.6, 0.55])
    assert scores.nll == pytest.approx(-(math.log(0.9) + math.log(0.4) + math.log(0.55)) / 3)
    assert scores.brier == pytest.approx((2 * 0.1**2 + 2 * 0.6**2 + 2 * 0.45**2) / 3)
    # Each value has a bin of its own. Class 0: .9 (true), .6, .45; class 1: .1, .4 (true), .55 (true).
    first = 0.1 + 0.6 + 0.45
    second = 0.1 + (1 - 0.4) + (1 - 0.55)
    assert scores.cwece == pytest.approx((first + second) / 3 / 2)


def test_calibration_errors_are_those_of_torchmetrics() -> None:
    """The class-wise one is the mean over each class alone."""
    logits, truth = random_logits()
    scores, p, true = (
        score_probabilities(logits, truth),
        torch.from_numpy(logits).softmax(1),
        torch.from_numpy(truth),
    )
    found = calibrate(scores.confidence, logits.argmax(1) == truth)
    for norm, ours in (("l1", found.ece), ("max", found.mce)):
        assert ours == pytest.approx(float(multiclass_calibration_error(p, true, 6, 15, norm)), abs=1e-6)
    each = [float(binary_calibration_error(p[:, k].contiguous(), (true == k).int(), 15)) for k in range(6)]
    assert scores.cwece == pytest.approx(np.mean(each), abs=1e-6)


def test_logits_whose_exponential_overflows() -> None:
    logits = np.array([[1e5, 0.0], [0.0, 1e308], [-1e308, 1e308]])
    scores = score_probabilities(logits, np.array([0, 1, 1]))
    assert scores.confidence.tolist() == [1, 1, 1]
    assert (scores.nll, scores.brier, scores.cwece) == (0, 0, 0)
    wrong = score_probabilities(np.array([[1e5, 0.0]]), np.array([1]))
    assert (wrong.nll, wrong.brier) == (1e5, 2)


def test_a_class_that_is_never_answered() -> None:
    logits = np.array([[0.0, -np.inf, 0.0]])
    scores = score_probabilities(logits, np.array([0]))
    assert (scores.nll, scores.brier) == (pytest.approx(math.log(2)), pytest.approx(0.5))
    assert score_probabilities(logits, np.array([1])).nll == math.inf


def test_a_temperature_divides_the_logits() -> None:
    logits, truth = random_logits(200)
    one, other = score_probabilities(logits, truth, 2.5), score_probabilities(logits / 2.5, truth)
    assert one.confidence == pytest.approx(other.confidence, rel=1e-12)
    assert one[1:] == pytest.approx(other[1:], rel=1e-12)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, truth = random_logits(101)
    whole = score_probabilities(logits, truth)
    monkeypatch.setattr(logit_rows, "BLOCK", 7 * 6)
    parts = score_probabilities(logits.astype(np.float64), truth)
    assert np.array_equal(parts.confidence, whole.confidence)
    assert parts[1:] == pytest.approx(whole[1:], rel=1e-12)
