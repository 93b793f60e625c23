"""Intervals and tests against tables, formulas and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.statistics import below, bootstrap, mcnemar, rate, relative_nfr, wilson
from mptctl.evaluation.summary import Counts


def counts(both_right: int, negative: int, positive: int, both_wrong: int) -> Counts:
    return Counts(
        both_right=both_right, negative_flips=negative, positive_flips=positive, both_wrong=both_wrong
    )


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_against_newcombes_table(count: int, total: int, low: float, high: float) -> None:
    assert wilson(count, total) == pytest.approx((low, high), abs=5e-5)


def test_a_higher_level_is_a_wider_interval() -> None:
    narrow, wide = wilson(5, 100, 0.9), wilson(5, 100, 0.99)
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < 0.05 < narrow[1] < wide[1]


def test_no_sample_no_rate() -> None:
    assert wilson(0, 0) is None
    assert (rate(0, 0).value, rate(0, 0).ci95) == (None, None)


@pytest.mark.parametrize(
    ("negative", "positive", "p"),
    [
        (0, 0, 1.0),
        (1, 5, 2 * (1 + 6) / 64),  # 2 * P(X <= 1) of six fair coins
        (5, 1, 2 * (1 + 6) / 64),
        (0, 10, 2 / 1024),
        (4, 4, 1.0),
    ],
)
def test_mcnemar_by_hand(negative: int, positive: int, p: float) -> None:
    assert mcnemar(counts(50, negative, positive, 3)) == pytest.approx(p)


def test_relative_nfr_is_one_for_independent_errors() -> None:
    # ER_old = ER_new = 0.2, flips 0.8 * 0.2.
    assert relative_nfr(counts(64, 16, 16, 4)) == pytest.approx(1.0)
    assert relative_nfr(counts(0, 0, 5, 5)) is None
    assert relative_nfr(counts(5, 0, 5, 0)) is None


def test_bootstrap_is_the_resampling_of_samples() -> None:
    table = counts(60, 12, 8, 20)
    drawn = bootstrap(table)
    kinds = np.repeat([0, 1, 2, 3], [60, 12, 8, 20])
    rng = np.random.default_rng(5)
    differences, relative = [], []
    for _ in range(4000):
        sample = rng.choice(kinds, size=kinds.size)
        negative, positive, wrong = (float((sample == kind).mean()) for kind in (1, 2, 3))
        old_error, new_error = positive + wrong, negative + wrong
        differences.append(new_error - old_error)
        relative.append(negative / ((1 - old_error) * new_error))
    assert drawn.er_difference == pytest.approx(np.quantile(differences, [0.025, 0.975]), abs=0.011)
    assert drawn.rel_nfr is not None
    assert drawn.rel_nfr == pytest.approx(np.quantile(relative, [0.025, 0.975]), abs=0.03)


def test_bootstrap_is_seeded() -> None:
    table = counts(600, 12, 8, 20)
    assert bootstrap(table, seed=3) == bootstrap(table, seed=3)
    assert bootstrap(table, seed=3) != bootstrap(table, seed=4)


def test_bootstrap_without_rel_nfr() -> None:
    assert bootstrap(counts(10, 0, 2, 0)).rel_nfr is None


def test_an_interval_decides_not_its_point() -> None:
    assert below((0.01, 0.019), 0.02) == "yes"
    assert below((0.01, 0.02), 0.02) == "undecided"
    assert below((0.02, 0.03), 0.02) == "no"
