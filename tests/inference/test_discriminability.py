"""Variance between and within classes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.inference.discriminability import compute_spread


def test_a_case_by_hand() -> None:
    """Class a has (1, 0) and (0, 1): mean (.5, .5), distances .5 each. Class b has (-1, 0): mean itself, 0.

    Within: (.5 + 0) / 2 = .25. Between: 1.5^2 + .5^2 = 2.5.
    """
    features = np.array([[3, 0], [0, 0.2], [-5, 0], [-1, 0]], dtype=np.float32)
    found = compute_spread(features, np.array(["a", "a", "b", "b"]))
    assert found is not None
    assert (found.classes, found.pictures) == (2, 4)
    assert (found.between, found.within, found.ratio) == pytest.approx((2.5, 0.25, 10.0), abs=1e-6)


def test_many_classes_are_the_mean_over_pairs() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 5)).astype(np.float32)
    labels = np.array(list("abcdef") * 10)
    x = features / np.linalg.norm(features, axis=1, keepdims=True)
    means = np.stack([x[labels == name].mean(axis=0) for name in "abcdef"]).astype(np.float64)
    pairs = [((means[i] - means[j]) ** 2).sum() for i in range(6) for j in range(6) if i != j]
    found = compute_spread(features, labels)
    assert found is not None
    assert found.between == pytest.approx(np.mean(pairs), rel=1e-5)


def test_edges() -> None:
    features = np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32)
    assert compute_spread(features[:2], np.array(["a", "a"])) is None
    found = compute_spread(features, np.array(["a", "b", "c"]))
    assert found is not None
    assert (found.within, found.ratio) == (0.0, None)
