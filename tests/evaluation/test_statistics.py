"""Intervals and tests against tables, formulas and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import xlogy

from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import (
    below,
    error_difference,
    mcnemar,
    rate,
    relative_nfr,
    relative_nfr_interval,
    wilson,
)


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


def test_error_difference_against_a_published_example() -> None:
    # Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables (2017), chapter 8: complete responses
    # before and after consolidation therapy, the square-and-add interval.
    assert error_difference(counts(59, 6, 16, 80)) == pytest.approx((-0.1186, -0.0046), abs=5e-5)


def test_error_difference_by_hand() -> None:
    # (20, 12, 2, 16): p1 = 32 / 50, Wilson .5014 to .7586; p2 = 22 / 50, Wilson .3116 to .5769;
    # phi = (320 - 24 - 25) / sqrt(32 * 18 * 22 * 28) = .45497.
    z = 1.959963984540054
    l1, u1 = (
        (32 + z * z / 2 + side * z * math.sqrt(32 * 18 / 50 + z * z / 4)) / (50 + z * z) for side in (-1, 1)
    )
    l2, u2 = (
        (22 + z * z / 2 + side * z * math.sqrt(22 * 28 / 50 + z * z / 4)) / (50 + z * z) for side in (-1, 1)
    )
    assert (l1, u1, l2, u2) == pytest.approx((0.5014, 0.7586, 0.3116, 0.5769), abs=5e-5)
    phi = 271 / math.sqrt(32 * 18 * 22 * 28)
    below_it = math.sqrt((0.64 - l1) ** 2 - 2 * phi * (0.64 - l1) * (u2 - 0.44) + (u2 - 0.44) ** 2)
    above_it = math.sqrt((u1 - 0.64) ** 2 - 2 * phi * (u1 - 0.64) * (0.44 - l2) + (0.44 - l2) ** 2)
    assert error_difference(counts(20, 12, 2, 16)) == pytest.approx((0.2 - below_it, 0.2 + above_it))


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_error_difference_of_swapped_models_is_its_negative(cells: tuple[int, int, int, int]) -> None:
    a, b, c, d = cells
    low, high = error_difference(counts(a, b, c, d))
    assert error_difference(counts(a, c, b, d)) == pytest.approx((-high, -low), abs=1e-12)
    assert -1 <= low < (b - c) / (a + b + c + d) + 1e-12
    assert low < high <= 1


SMALL = [
    (12, 3, 2, 3),
    (7, 3, 2, 2),
    (30, 1, 4, 0),
    (18, 0, 0, 2),
    (14, 0, 3, 3),
    (0, 5, 9, 6),
    (15, 5, 0, 0),
    (0, 2, 0, 3),
    (1, 0, 0, 1),
    (90, 10, 40, 60),
]


def lowest_deviance(cells: tuple[int, int, int, int], ratio: float) -> float:
    """Twice the log-likelihood lost by the best cells of that Rel-NFR, by a search that knows no formula."""
    x = np.array(cells, dtype=float)
    most = min(1.0, 1 / ratio)

    def lost(point: np.ndarray) -> float:
        r, w = most / (1 + np.exp(-np.clip(point, -30, 30)))
        flips = ratio * r * w
        p = np.array([r - flips, flips, 1 - r - w + flips, w - flips])
        if p.min() < 0:
            return 1e6 * (1 - p.min())
        with np.errstate(divide="ignore"):
            return float(-2 * xlogy(x, p / (x / x.sum()).clip(1e-300)).sum())

    starts = [(s, t) for s in (-3.0, 0.0, 3.0) for t in (-3.0, 0.0, 3.0)]
    options = {"xatol": 1e-9, "fatol": 1e-10, "maxiter": 4000, "maxfev": 4000}
    return min(float(minimize(lost, s, method="Nelder-Mead", options=options).fun) for s in starts)


@pytest.mark.parametrize("cells", SMALL)
def test_relative_nfr_interval_against_a_numeric_search(cells: tuple[int, int, int, int]) -> None:
    interval = relative_nfr_interval(counts(*cells), 0.95)
    value = relative_nfr(counts(*cells))
    assert interval is not None
    assert value is not None
    low, high = interval
    assert low <= value < high
    allowed = 1.959963984540054**2
    assert lowest_deviance(cells, high) == pytest.approx(allowed, abs=2e-4)
    assert lowest_deviance(cells, 1.05 * high) > allowed + 1e-3
    if cells[1]:
        assert lowest_deviance(cells, low) == pytest.approx(allowed, abs=2e-4)
        assert lowest_deviance(cells, low / 1.05) > allowed + 1e-3
    else:
        assert low == 0


def test_intervals_cover_as_often_as_they_say() -> None:
    cells = np.array([0.80, 0.03, 0.06, 0.11])
    ratio = cells[1] / ((cells[0] + cells[1]) * (cells[1] + cells[3]))
    held = np.zeros(2)
    tables = np.random.default_rng(1).multinomial(150, cells, size=200)
    for table in tables.tolist():
        drawn = counts(*table)
        low, high = error_difference(drawn)
        held[0] += low <= cells[1] - cells[2] <= high
        interval = relative_nfr_interval(drawn)
        assert interval is not None
        held[1] += interval[0] <= ratio <= interval[1]
    # 95 %, and three standard errors of 200 draws.
    assert (held / 200 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 200)).all()
    assert (held / 200 < 1).all()


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, math.nextafter(1, 0)])
@pytest.mark.parametrize("cells", [(18, 0, 0, 2), (14, 0, 2, 4), (17, 1, 0, 2), (1, 0, 0, 1)])
def test_every_bound_has_a_width(cells: tuple[int, int, int, int], confidence: float) -> None:
    table = counts(*cells)
    n, flips = table.total, table.negative_flips
    relative, difference = relative_nfr_interval(table, confidence), error_difference(table, confidence)
    shares = wilson(flips, n, confidence), wilson(flips, table.old_right, confidence)
    for interval, value in (
        (relative, relative_nfr(table)),
        (difference, (flips - table.positive_flips) / n),
        (shares[0], flips / n),
        (shares[1], flips / table.old_right),
    ):
        assert interval is not None
        assert value is not None
        assert interval[1] > value
        assert math.isfinite(interval[1])


def test_many_samples_are_no_burden_for_an_interval() -> None:
    table = counts(880_000_000, 20_000_000, 50_000_000, 50_000_000)
    interval = relative_nfr_interval(table)
    assert interval is not None
    # By the delta method on the logarithm: 1/b - 1/(a+b) - 1/(b+d) + (2 b / ((a + b)(b + d)) - 1/n).
    variance = 1 / 20e6 - 1 / 900e6 - 1 / 70e6 + 2 * 20e6 / (900e6 * 70e6) - 1 / 1e9
    spread = 1.959963984540054 * math.sqrt(variance)
    value = 20e6 * 1e9 / (900e6 * 70e6)
    assert interval == pytest.approx((value * math.exp(-spread), value * math.exp(spread)), rel=1e-6)


def test_no_interval_of_a_rate_that_is_not_defined() -> None:
    assert relative_nfr_interval(counts(10, 0, 2, 0)) is None
    assert relative_nfr_interval(counts(0, 0, 5, 5)) is None


def test_an_interval_decides_not_its_point() -> None:
    assert below((0.01, 0.019), 0.02) == "yes"
    assert below((0.01, 0.02), 0.02) == "undecided"
    assert below((0.02, 0.03), 0.02) == "no"
