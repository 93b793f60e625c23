"""Which rows are told apart from the best one: by hand, and over simulated tables of equal rows."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.rows_apart import RowRate, SeedRate, rows_apart
from tests.simulations.rows_over_seeds import told_apart

DRAWS = np.random.default_rng(0).normal(size=(8, 2000))


def row(rate: float, noise: int, *, seeds: int = 1, spread: float = 0.0, deviation: float = 0.01) -> RowRate:
    """A row whose draws have a noise of their own, the same for all seeds, and seeds apart by some spread."""
    around = np.linspace(-spread, spread, seeds) if seeds > 1 else np.zeros(1)
    return {
        seed: SeedRate(rate + shift, rate + shift + deviation * DRAWS[noise])
        for seed, shift in enumerate(around.tolist())
    }


def test_two_rows_of_one_seed_are_apart_from_1_96_standard_errors_on() -> None:
    # The difference has a standard error of 0.01 * sqrt(2) = 0.01414, so that 1.96 of them are 0.0277.
    assert rows_apart([row(0.10, 0), row(0.10 + 0.0265, 1)], 0) == [None, False]
    assert rows_apart([row(0.10, 0), row(0.10 + 0.0290, 1)], 0) == [None, True]
    assert rows_apart([row(0.10, 0), row(0.10 - 0.0290, 1)], 0) == [None, True]


def test_with_eight_rows_the_best_of_which_was_chosen_a_difference_must_be_larger() -> None:
    # Tukey's quantile of eight: 4.29 / sqrt(2) = 3.03 standard errors, 0.0429.
    near, far = 0.0405, 0.0450
    others = [row(0.10 + near, noise) for noise in range(1, 8)]
    assert rows_apart([row(0.10, 0), *others], 0) == [None] + [False] * 7
    others[0] = row(0.10 + far, 1)
    assert rows_apart([row(0.10, 0), *others], 0) == [None, True] + [False] * 6


def test_retraining_noise_is_that_of_all_rows_or_the_pairs_own_where_that_is_larger() -> None:
    # Without noise of samples, three seeds each: differences of seeds have the variance 2 s^2.
    rng = np.random.default_rng(1)

    def trained(rate: float, noise: float) -> RowRate:
        shifts = noise * np.array([1, -1, 0]) if noise else np.zeros(3)
        return {
            seed: SeedRate(rate + shift, np.full(2000, rate + shift))
            for seed, shift in enumerate(rng.permutation(shifts).tolist())
        }

    quiet = [trained(0.10 + i / 1000, 0.001) for i in range(6)]
    # 0.04 is far for the quiet rows; a row whose own seeds are 0.03 apart may be equal to them.
    assert rows_apart([*quiet, trained(0.14, 0.001)], 0)[-1] is True
    assert rows_apart([*quiet, trained(0.14, 0.03)], 0)[-1] is False


def test_rows_without_a_common_seed_or_a_rate_are_not_judged_and_equal_ones_are_not_apart() -> None:
    undefined: RowRate = {0: SeedRate(float("nan"), np.full(2000, np.nan))}
    other_seed: RowRate = {7: row(0.5, 1)[0]}
    rows: list[RowRate] = [row(0.1, 0), other_seed, undefined, row(0.1, 0)]
    assert rows_apart(rows, 0) == [None, None, None, False]
    assert rows_apart([row(0.1, 0)], 0) == [None]


@pytest.mark.parametrize(("rows", "seeds", "retraining"), [(8, 1, 0.0), (12, 1, 0.0), (8, 3, 0.1)])
def test_of_equal_rows_one_is_shown_as_truly_worse_in_about_5_percent(
    rows: int, seeds: int, retraining: float
) -> None:
    # 5 %, and three standard errors of 150 tables; with an interval a pair it is 40 % and more.
    assert told_apart(rows, seeds, retraining, 1.0, tables=150) <= 0.05 + 3 * 0.018
