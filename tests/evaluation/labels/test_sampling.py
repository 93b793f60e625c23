"""Limits of flips from labels: cases counted by hand, coverage by enumeration of every sample, and planning."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from mptctl.evaluation.labels.sampling import (
    SAMPLING_PART,
    Stratum,
    difference,
    flip_shares,
    flips_interval,
    log_lower_tail,
    log_ratio,
    log_ratio_from_below,
    most_flips,
    plan_labels,
    share_interval,
)
from mptctl.evaluation.statistics import exact_interval, sequence_interval

TAIL = 0.025


@pytest.mark.parametrize(
    ("rows", "labelled", "flips", "tail", "limit"),
    [
        (4, 2, 0, 0.2, 1),  # P(X = 0) is 3/6 with one flip among four, 1/6 with two
        (4, 2, 0, 0.1, 2),  # with three flips it is 0
        (4, 2, 1, 0.4, 3),  # P(X <= 1) with three flips is 1/2
        (4, 2, 1, 0.6, 2),  # with two flips it is 5/6
        (5, 5, 2, 0.025, 2),  # all are labelled
        (5, 0, 0, 0.025, 5),  # none is
    ],
)
def test_one_look_inverts_the_hypergeometric_distribution(
    rows: int, labelled: int, flips: int, tail: float, limit: int
) -> None:
    assert most_flips([Stratum(rows, labelled, flips)], tail, "once") == limit


def test_the_tail_is_that_of_scipy() -> None:
    for rows, labelled in ((7, 3), (40, 11), (3000, 500)):
        for total in range(0, rows + 1, max(1, rows // 13)):
            flips = np.arange(labelled + 1)
            ours = np.exp(log_lower_tail(flips, total, rows, labelled))
            assert ours == pytest.approx(hypergeom.cdf(flips, rows, total, labelled), abs=1e-9)


def test_the_tail_of_many_labels_needs_few_terms() -> None:
    # Means of 50,000, 5,000 and 90,000 of 100,000 labels, standard deviations of about 150, 65 and 90.
    for total, flips in ((500_000, 49_900), (50_000, 50_000), (900_000, 89_900)):
        ours = float(log_lower_tail(flips, total, 1_000_000, 100_000))
        assert ours == pytest.approx(hypergeom.logcdf(flips, 1_000_000, total, 100_000), abs=1e-5)


def test_the_ratio_is_the_prior_over_the_posterior() -> None:
    """Three rows, the prior of 0 to 3 flips even; the first label flips, the second does not."""
    likelihood = np.array([0, 1 / 3 * 2 / 2, 2 / 3 * 1 / 2, 1 * 0])
    posterior = likelihood / likelihood.sum()
    for total in (1, 2):
        assert math.exp(log_ratio(Stratum(3, 2, 1), total)) == pytest.approx(0.25 / posterior[total])


@pytest.mark.parametrize("rows", [5, 13])
def test_a_limit_of_one_look_is_too_low_as_rarely_as_said(rows: int) -> None:
    for labelled, total in product(range(1, rows), range(rows + 1)):
        flips = np.arange(max(0, labelled - rows + total), min(total, labelled) + 1)
        limits = [flips_interval([Stratum(rows, labelled, each)], TAIL, "once") for each in flips.tolist()]
        chance = hypergeom.pmf(flips, rows, total, labelled)
        low, high = np.array(limits).T
        assert chance[high < total].sum() <= TAIL + 1e-12
        assert chance[low > total].sum() <= TAIL + 1e-12


def test_limits_of_three_strata_are_too_low_as_rarely_as_said() -> None:
    """By enumeration of all labels of three strata of 12, 8 and 6 rows, for some numbers of flips in each."""
    rows, labelled = (12, 8, 6), (5, 4, 2)
    limits = {
        found: most_flips([Stratum(*each) for each in zip(rows, labelled, found, strict=True)], 0.1, "once")
        for found in product(*(range(each + 1) for each in labelled))
    }
    for flips in ((6, 4, 3), (9, 0, 0), (12, 8, 1), (3, 7, 6), (1, 1, 1)):
        wrong = sum(
            math.prod(hypergeom.pmf(found, rows, flips, labelled))
            for found, most in limits.items()
            if most < sum(flips)
        )
        assert wrong <= 0.1


@pytest.mark.parametrize("strata", [1, 3])
def test_any_number_of_looks_is_wrong_as_rarely_as_said(strata: int) -> None:
    generator, rows, wrong, streams = np.random.default_rng(5), 18 // strata, 0, 150
    for _ in range(streams):
        flips = [
            np.isin(generator.permutation(rows), np.arange(rows // (stratum + 2)))
            for stratum in range(strata)
        ]
        true = sum(int(each.sum()) for each in flips)
        bad = False
        for labelled in range(1, rows):
            seen = [Stratum(rows, labelled, int(each[:labelled].sum())) for each in flips]
            low, high = flips_interval(seen, 0.05, "any")
            bad |= not low <= true <= high
        wrong += bad
    assert wrong <= 0.1 * streams + 2 * math.sqrt(streams * 0.1 * 0.9)


def test_a_limit_of_any_looks_is_the_last_total_that_the_ratio_allows() -> None:
    """Against the ratio as a sum over all smaller totals, and against every larger total."""
    for rows, labelled in ((9, 4), (25, 10)):
        for flips in range(labelled + 1):
            totals = np.arange(flips, rows - labelled + flips + 1)
            likelihood = hypergeom.pmf(flips, rows, np.arange(rows + 1), labelled)
            ratio = [
                likelihood[:total].sum() / total / likelihood[total] if total else 0
                for total in totals.tolist()
            ]
            ours = [
                math.exp(log_ratio_from_below(Stratum(rows, labelled, flips), total))
                for total in totals[1:].tolist()
            ]
            assert ours == pytest.approx(ratio[1:], rel=1e-6)
            assert (
                most_flips([Stratum(rows, labelled, flips)], TAIL, "any")
                == totals[np.array(ratio) <= 1 / TAIL].max()
            )


def test_a_stratum_that_is_all_labelled_keeps_its_part_of_the_error_of_any_looks() -> None:
    """Three rows that are all labelled have a ratio of 1 / 4 at the true total, whatever their order."""
    half, done = Stratum(200, 60, 10), Stratum(3, 3, 1)
    totals = np.arange(34, 151)  # from the likeliest on
    allowed = totals[log_ratio(half, totals) <= math.log(4 / TAIL)].max()
    assert most_flips([half, done], TAIL, "any") == 1 + allowed
    assert math.exp(log_ratio(done, 1)) == pytest.approx(1 / 4)
    assert most_flips([half, done], TAIL, "once") == 1 + most_flips([half], TAIL, "once")


def test_unsure_labels_widen_both_ways() -> None:
    sure, unsure = Stratum(50, 20, 5), Stratum(50, 20, 5, 3)
    low, high = flips_interval([unsure], TAIL, "once")
    assert (
        high
        == flips_interval([Stratum(50, 20, 8)], TAIL, "once")[1]
        > flips_interval([sure], TAIL, "once")[1]
    )
    assert low == flips_interval([sure], TAIL, "once")[0]
    assert flips_interval([Stratum(4, 4, 1, 2)], TAIL, "any") == (1, 3)


def test_both_populations() -> None:
    shares = flip_shares([Stratum(10, 10, 4)], 200, TAIL, "once")
    assert shares.drawn == (0.02, 0.02)
    level = 1 - 2 * (1 - SAMPLING_PART) * TAIL
    assert shares.population == pytest.approx(exact_interval(4, 200, level))
    half = flip_shares([Stratum(10, 5, 2)], 200, TAIL, "once")
    assert half.drawn[0] < 0.02 < half.drawn[1]
    assert half.population[0] < half.drawn[0] and half.drawn[1] < half.population[1]
    assert difference((0.1, 0.2), (0.05, 0.15)) == pytest.approx((-0.05, 0.15))


def test_a_plan_decides_with_the_probability_that_it_names() -> None:
    rows, total, limit = 246, 4650, 0.02
    plan = plan_labels(rows, total, limit, 0.95)
    assert plan.needed is not None and plan.random_needed is not None
    true = round(total * limit / 2)

    def power(labels: int) -> float:
        found = np.arange(labels + 1)
        ends = [
            flip_shares([Stratum(rows, labels, each)], total, TAIL, "once").population[1]
            for each in found.tolist()
        ]
        return float(hypergeom.pmf(found, rows, true, labels)[np.array(ends) <= limit].sum())

    assert power(plan.needed) >= 0.8 > power(plan.needed - 8)
    found = np.arange(plan.random_needed + 1)
    ends = np.array([share_interval((0, each), plan.random_needed, TAIL)[1] for each in found.tolist()])
    assert binom.pmf(found, plan.random_needed, limit / 2)[ends <= limit].sum() >= 0.8
    assert plan_labels(30, 4650, 0.02, 0.95).needed == 0  # 30 of 4,650 are within 2 %, whatever flips
    # Of 2,000 samples none flips: the upper limit is 0.20 %, so that no labels show 0.05 %.
    assert plan_labels(200, 2000, 0.0005, 0.95).needed is None
    assert plan_labels(200, 400, 0.02, 0.95).needed is None  # 400 samples are too few, all labelled


def test_a_sequence_of_samples_is_wrong_as_rarely_as_said() -> None:
    streams, size, share, level = 100, 120, 0.05, 0.9
    found = np.random.default_rng(2).random((streams, size)) < share
    counts = found.cumsum(axis=1)
    wrong = 0
    for counted in counts.tolist():
        ends = [sequence_interval(each, n, level) for n, each in enumerate(counted, 1)]
        wrong += any(not low <= share <= high for low, high in ends)
    assert wrong <= streams * 0.1 + 2 * math.sqrt(streams * 0.1 * 0.9)
    low, high = sequence_interval(20, 20, 0.95)
    assert (round(low, 4), high) == (1 - 0.2038, 1.0)
    one, many = exact_interval(15, 300), sequence_interval(15, 300, 0.95)
    assert many[0] < one[0] and one[1] < many[1]
