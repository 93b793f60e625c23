"""Rates and their intervals, against formulas of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, multinomial

from mptctl.evaluation.limits import LIMITS, Limits
from mptctl.evaluation.statistics import (
    er_increase_interval,
    exact_interval,
    mcnemar,
    relative_nfr,
    relative_nfr_interval,
)
from tests.evaluation.made_up import flip_table as counts


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 857-872, table I, method 5.
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ],
)
def test_exact_interval_against_newcombes_table(count: int, total: int, low: float, high: float) -> None:
    assert exact_interval(count, total) == pytest.approx((low, high), abs=5e-5)
    assert exact_interval(total - count, total) == pytest.approx((1 - high, 1 - low), abs=5e-5)


@pytest.mark.parametrize("n", [5, 20, 100, 1000, 5000])
@pytest.mark.parametrize("limit", [0.001, 0.01, 0.02, 0.1, 0.5])
def test_a_verdict_on_a_count_is_wrong_in_at_most_2_5_percent(n: int, limit: float) -> None:
    """By enumeration: every count of `n` whose interval ends on the wrong side of a rate that equals the limit."""
    count = np.arange(n + 1)
    chance = binom.pmf(count, n, limit)
    ends = np.array([exact_interval(each, n) for each in count.tolist()])
    assert chance[ends[:, 1] < limit].sum() <= 0.025  # "pass", just above the limit
    assert chance[ends[:, 0] > limit].sum() <= 0.025  # "fail", just below it


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


def test_er_increase_interval_by_hand() -> None:
    # 12 negative and 2 positive flips of 50: exact 0.1306 to 0.3817 and 0.0049 to 0.1371, beta quantiles;
    # phi = -sqrt(13 * 3 / (39 * 49)) = -0.14286.
    p_low, p_high = beta.ppf(0.025, 12, 39), beta.ppf(0.975, 13, 38)
    q_low, q_high = beta.ppf(0.025, 2, 49), beta.ppf(0.975, 3, 48)
    assert (p_low, p_high, q_low, q_high) == pytest.approx((0.1306, 0.3817, 0.0049, 0.1371), abs=5e-5)
    phi = -math.sqrt(13 * 3 / (39 * 49))
    below_it = math.sqrt(
        (0.24 - p_low) ** 2 - 2 * phi * (0.24 - p_low) * (q_high - 0.04) + (q_high - 0.04) ** 2
    )
    above_it = math.sqrt(
        (p_high - 0.24) ** 2 - 2 * phi * (p_high - 0.24) * (0.04 - q_low) + (0.04 - q_low) ** 2
    )
    assert er_increase_interval(counts(20, 12, 2, 16)) == pytest.approx((0.2 - below_it, 0.2 + above_it))
    # Which samples of the others both models get wrong makes no difference.
    assert er_increase_interval(counts(36, 12, 2, 0)) == er_increase_interval(counts(20, 12, 2, 16))


def test_er_increase_interval_at_its_edges() -> None:
    # No flips of 20: none of either kind with 2.5 %; all of them: as one count of 20.
    none = 1 - 0.025 ** (1 / 20)
    assert er_increase_interval(counts(5, 0, 0, 15)) == pytest.approx((-none, none))
    assert er_increase_interval(counts(0, 20, 0, 0)) == pytest.approx((2 * 0.025 ** (1 / 20) - 1, 1))
    low, high = exact_interval(15, 20)
    assert er_increase_interval(counts(0, 15, 5, 0)) == pytest.approx((2 * low - 1, 2 * high - 1))
    # Of ten million samples it is the normal interval, 1.96 standard errors to each side.
    deviation = math.sqrt((0.02 + 0.05 - 0.03**2) / 10_000_000)
    ends = er_increase_interval(counts(8_300_000, 200_000, 500_000, 1_000_000))
    assert ends == pytest.approx((-0.03 - 1.96 * deviation, -0.03 + 1.96 * deviation), abs=0.002 * deviation)


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_er_increase_interval_of_swapped_models_is_its_negative(cells: tuple[int, int, int, int]) -> None:
    a, b, c, d = cells
    low, high = er_increase_interval(counts(a, b, c, d))
    assert er_increase_interval(counts(a, c, b, d)) == pytest.approx((-high, -low), abs=1e-12)
    assert -1 <= low < (b - c) / (a + b + c + d) + 1e-12
    assert low < high <= 1


def test_relative_nfr_interval_by_hand() -> None:
    """No flip among two wrong answers, 18 of 20 right before: 0.9 and 0.1 of 2.5 % are 2.25 and 0.25 %."""
    interval = relative_nfr_interval(counts(18, 0, 0, 2))
    assert interval is not None
    # None of two with 2.25 %: 1 - sqrt(0.0225) = 0.85; the old model's share from the other tail.
    assert interval == pytest.approx((0, 0.85 / beta.ppf(0.0025, 18, 3)))
    # Waived flips do not count, and are wrong answers still: as none of three.
    waived = relative_nfr_interval(counts(17, 1, 0, 2), flips=0)
    assert waived is not None
    assert waived[1] == pytest.approx((1 - 0.0225 ** (1 / 3)) / beta.ppf(0.0025, 18, 3))


@pytest.mark.parametrize("n", [5, 12])
@pytest.mark.parametrize("old_right", [0.3, 0.9])
@pytest.mark.parametrize(("of_right", "of_wrong"), [(0.01, 0.5), (0.1, 0.6), (0.3, 0.3), (0.6, 0.2)])
def test_a_verdict_on_rel_nfr_is_wrong_in_at_most_2_5_percent(
    n: int, old_right: float, of_right: float, of_wrong: float
) -> None:
    """By enumeration of all flip tables; the update errs with `of_right` where OLD is right, and else `of_wrong`."""
    flip, wrong = old_right * of_right, (1 - old_right) * of_wrong
    cells = np.array([old_right - flip, flip, 1 - old_right - wrong, wrong])
    ratio = flip / (old_right * (flip + wrong))
    passed = failed = 0.0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            for c in range(n + 1 - a - b):
                table = (a, b, c, n - a - b - c)
                interval = relative_nfr_interval(counts(*table))
                if interval is None:
                    continue
                chance = multinomial.pmf(table, n, cells)
                passed += chance * (interval[1] < ratio)
                failed += chance * (interval[0] > ratio)
    assert passed <= 0.025
    assert failed <= 0.025


def test_intervals_cover_as_often_as_they_say() -> None:
    cells = np.array([0.80, 0.03, 0.06, 0.11])
    ratio = cells[1] / ((cells[0] + cells[1]) * (cells[1] + cells[3]))
    held = np.zeros(2)
    tables = np.random.default_rng(1).multinomial(150, cells, size=200)
    for table in tables.tolist():
        drawn = counts(*table)
        low, high = er_increase_interval(drawn)
        held[0] += low <= cells[1] - cells[2] <= high
        interval = relative_nfr_interval(drawn)
        assert interval is not None
        held[1] += interval[0] <= ratio <= interval[1]
    # 95 %, and three standard errors of 200 draws.
    assert (held / 200 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 200)).all()
    assert held[0] < 200


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, math.nextafter(1, 0)])
@pytest.mark.parametrize("cells", [(18, 0, 0, 2), (14, 0, 2, 4), (17, 1, 0, 2), (1, 0, 0, 1)])
def test_every_bound_has_a_width(cells: tuple[int, int, int, int], confidence: float) -> None:
    table = counts(*cells)
    n, flips = table.total, table.negative_flips
    relative, difference = relative_nfr_interval(table, confidence), er_increase_interval(table, confidence)
    shares = exact_interval(flips, n, confidence), exact_interval(flips, table.old_right, confidence)
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
    # 20 million of 70 million to 900 million of 1,000 million: normal ends, at quantiles of 2.25 and 0.25 %.
    value, q = 20e6 / 70e6 / 0.9, 20 / 70
    flips, old = 2.00465 * math.sqrt(q * (1 - q) / 70e6) / q, 2.80703 * math.sqrt(0.9 * 0.1 / 1e9) / 0.9
    assert interval == pytest.approx((value * (1 - flips - old), value * (1 + flips + old)), rel=1e-6)


def test_every_limit_has_its_row_in_the_table() -> None:
    fields = {name for name in Limits.model_fields if name.startswith("max_")}
    assert {kind.key for kind in LIMITS} == fields
