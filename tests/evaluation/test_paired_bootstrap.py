"""Rates on samples that are drawn again, with the bias chosen anew, by hand and against drawing them one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from mptctl.evaluation.paired_bootstrap import (
    BiasAtError,
    BoolArray,
    CountedUpdate,
    FloatArray,
    WrongByBias,
    common_variance,
    interval_of_mean,
    largest_bias,
    observed_rates,
    redraw_rates,
)

COLUMNS = ("nfr", "rel_nfr", "er_old", "er_all")


def updates(seed: int, *errors: float, n: int = 2000) -> list[CountedUpdate]:
    """Updates that err independently of each other at some rates, on one test part."""
    rng = np.random.default_rng(seed)
    of_old, old_right = rng.random(n) < 0.5, rng.random(n) < 0.9
    return [fixed(of_old, old_right, rng.random(n) < error) for error in errors]


def fixed(of_old: BoolArray, old_right: BoolArray, wrong: BoolArray) -> CountedUpdate:
    return CountedUpdate(WrongByBias(np.zeros(len(wrong)), wrong, wrong), of_old, old_right, "test")


def shifted(rng: np.random.Generator, n: int, n_val: int, ahead: float) -> CountedUpdate:
    """An update whose new classes are ahead of its old ones, with the largest bias at the error of another one."""

    def answers(size: int) -> tuple[WrongByBias, BoolArray]:
        of_old = rng.random(size) < 0.5
        gap = rng.normal(np.where(of_old, -1.5, 1.5) + ahead, 1.0)
        return WrongByBias(gap, of_old | (rng.random(size) < 0.1), ~of_old | (rng.random(size) < 0.1)), of_old

    (test, of_old), (val, _) = answers(n), answers(n_val)
    choice = BiasAtError(val, rng.random(n_val) < 0.17, -np.inf)
    bias = float(choice.choose(np.ones((1, n_val)))[0])
    return CountedUpdate(test, of_old, rng.random(n) < 0.9, "test", bias, choice)


@pytest.mark.parametrize(
    ("least", "chosen"), [(-np.inf, [-1.0, -2.0]), (-1.5, [-1.0, -1.5]), (0.0, [0.0, 0.0])]
)
def test_each_draw_gets_the_largest_bias_without_error_from_the_least_one_on(
    least: float, chosen: list[float]
) -> None:
    # At a bias of -2 all three are right, from -1 on the second is wrong, from 0.5 on the first too.
    wrong = np.array([True, True, False])
    rule = BiasAtError(
        WrongByBias(np.array([0.5, -1.0, -2.0]), ~wrong, wrong), np.zeros(3, dtype=bool), least
    )
    # The second sample is not in the first draw.
    assert rule.choose(np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]])).tolist() == chosen


def test_samples_of_equal_gaps_change_together_also_where_no_bias_reaches_them() -> None:
    """One becomes right and one wrong: there is no bias at which both are right."""
    for gap in (1.0, np.inf):
        answers = WrongByBias(np.array([gap, gap]), np.array([True, False]), np.array([False, True]))
        assert not largest_bias(answers, np.ones((1, 2)), np.array([0.0]))[1][0]


def difference(one: list[CountedUpdate], column: str) -> tuple[list[float], FloatArray]:
    """The difference of the first to the second of each pair, and its draws, a row a pair."""
    draws = redraw_rates(one)
    values = [
        observed_rates(a)[column] - observed_rates(b)[column]
        for a, b in zip(one[::2], one[1::2], strict=True)
    ]
    apart = [a[column] - b[column] for a, b in zip(draws[::2], draws[1::2], strict=True)]
    return values, np.stack(apart)


def is_noise(pairs: list[CountedUpdate], column: str) -> bool:
    ends = interval_of_mean(*difference(pairs, column))
    return ends is None or ends[0] <= 0 <= ends[1]


def test_rates_by_hand() -> None:
    # Four samples of old classes, of which the old model gets three right; one of a new class. A bias of 2 mends one
    # flip and spoils the new class; at 1 the gap of 1 goes over.
    answers = WrongByBias(
        gap=np.array([1.0, 2.0, -1.0, 3.0, 2.0]),
        as_new=np.array([True, True, True, True, False]),
        as_old=np.array([False, False, False, True, True]),
    )
    of_old, old_right = np.array([1, 1, 1, 1, 0], bool), np.array([1, 1, 0, 1, 0], bool)
    one = CountedUpdate(answers, of_old, old_right, "test")
    biases = np.array([0.0, 1.0, 2.0])
    rates = one.rates(np.ones((3, 5)), biases)
    assert rates["nfr"].tolist() == [3 / 4, 2 / 4, 1 / 4]
    assert rates["er_old"].tolist() == [3 / 4, 2 / 4, 1 / 4]
    assert rates["er_all"].tolist() == [3 / 5, 2 / 5, 2 / 5]
    assert rates["rel_nfr"] == pytest.approx([(3 / 4) / (3 / 4 * 3 / 4), (2 / 4) / (3 / 4 * 2 / 4), 4 / 3])
    # The first sample is there twice, the last one not at all.
    twice = one.rates(np.array([[2, 1, 1, 1, 0]]), np.array([1.5]))
    assert (twice["nfr"][0], twice["er_all"][0]) == (2 / 5, 2 / 5)
    assert observed_rates(replace(one, bias=2.0))["nfr"] == 1 / 4


def test_the_interval_over_seeds_adds_the_variances_of_retraining_and_of_the_samples_in_common() -> None:
    # Of one seed: the percentiles of its draws; of two: none.
    draws = np.linspace(0.009, 0.011, 1001)
    assert interval_of_mean([0.01], draws[None]) == pytest.approx(np.quantile(draws, [0.025, 0.975]))
    assert interval_of_mean([0.01, 0.02], np.stack([draws, draws])) is None
    # Draws of which the seeds have nothing in common: Student's interval.
    values = [0.01, 0.02, 0.0]
    own = np.array([[0.1, -0.1, 0, 0, 0, 0], [0, 0, 0.1, -0.1, 0, 0], [0, 0, 0, 0, 0.1, -0.1]])
    student = scipy.stats.t.interval(0.95, 2, np.mean(values), scipy.stats.sem(values))
    assert interval_of_mean(values, own) == pytest.approx(student)
    # Seeds that move together, with a standard deviation of 0.1, and do not differ: the normal interval.
    shared = np.tile([0.1, -0.1], (3, 1))
    assert interval_of_mean([0.01] * 3, shared) == pytest.approx((0.01 - 0.195996, 0.01 + 0.195996), abs=1e-6)
    # Both: the squares of the two half widths are added.
    half = ((student[1] - 0.01) ** 2 + 0.1959964**2) ** 0.5
    assert interval_of_mean(values, shared) == pytest.approx((0.01 - half, 0.01 + half))
    assert interval_of_mean([0.01, 0.02, float("nan")], shared) is None


def test_what_seeds_have_in_common_is_the_covariance_of_their_draws() -> None:
    one = np.array([0.1, -0.1, 0.1, -0.1])
    assert common_variance(one[None]) == pytest.approx(0.01)
    assert common_variance(np.stack([one, one, one])) == pytest.approx(0.01)
    # Two of three move together: two of six covariances are 0.01. What moves apart has nothing in common.
    assert common_variance(np.stack([one, one, np.array([0.1, 0.1, -0.1, -0.1])])) == pytest.approx(0.01 / 3)
    assert common_variance(np.stack([one, -one])) == 0


def test_the_draws_spread_as_drawing_the_samples_one_by_one_does() -> None:
    rng = np.random.default_rng(3)
    one, n, n_val = shifted(rng, 300, 200, 0.5), 300, 200
    draws = redraw_rates([one], resamples=4000)[0]
    assert one.choice is not None
    plain: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for _ in range(1500):
        val, test = rng.integers(n_val, size=n_val), rng.integers(n, size=n)
        gap, wrong = one.choice.answers.gap[val], one.choice.rival_wrong[val]
        places = np.append(gap.min() - 1, np.sort(gap))
        errors = [
            np.where(gap > place, one.choice.answers.as_new[val], one.choice.answers.as_old[val]).sum()
            for place in places
        ]
        fits = np.flatnonzero(np.array(errors) <= wrong.sum())
        bias = places[fits[-1]] if fits.size else places[int(np.argmin(errors))]
        new_wrong, of_old, kept = one.answers.at(float(bias))[test], one.of_old[test], one.old_right[test]
        flips, error = (
            (of_old & kept & new_wrong).sum() / of_old.sum(),
            (of_old & new_wrong).sum() / of_old.sum(),
        )
        found = (flips, flips / ((of_old & kept).sum() / of_old.sum() * error), error, new_wrong.mean())
        for column, value in zip(COLUMNS, found, strict=True):
            plain[column].append(value)
    for column in COLUMNS:
        spread = np.std(plain[column])
        assert draws[column].mean() == pytest.approx(np.mean(plain[column]), abs=0.15 * spread)
        assert draws[column].std() == pytest.approx(spread, rel=0.1)


def test_pairing_takes_out_what_two_methods_have_in_common() -> None:
    (one,) = updates(4, 0.3)
    wrong = one.answers.as_new.copy()
    wrong[np.flatnonzero(wrong)[:30]] = False
    better = fixed(one.of_old, one.old_right, wrong)
    shuffled = fixed(one.of_old, one.old_right, np.random.default_rng(5).permutation(wrong))
    assert not is_noise([one, better], "er_all")
    assert is_noise([one, shuffled], "er_all")


def test_a_rate_that_no_draw_defines_has_no_interval() -> None:
    right = np.ones(50, dtype=np.bool_)
    values, draws = difference([fixed(right, right, ~right)] * 2, "rel_nfr")
    assert np.isnan(draws).all()
    assert interval_of_mean(values, draws) is None


def test_many_samples_are_drawn_in_blocks_without_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    one = shifted(np.random.default_rng(1), 60, 40, 0.5)
    whole = redraw_rates([one], resamples=100)[0]
    monkeypatch.setattr("mptctl.evaluation.paired_bootstrap.BLOCK", 60 * 7)
    for column, values in redraw_rates([one], resamples=100)[0].items():
        np.testing.assert_array_equal(values, whole[column])
