"""The paired bootstrap: equal methods are noise, a planted difference is not, and seeds count as well as samples."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.paired_bootstrap import BoolArray, differences, is_noise, joint_cells

COLUMNS = ("nfr", "rel_nfr", "er_old", "er_all")


def methods(
    seed: int, error: float, other_error: float, n: int = 2000
) -> tuple[BoolArray, BoolArray, BoolArray, BoolArray]:
    """of_old, old_right, and right answers of two methods that err independently, at two rates."""
    rng = np.random.default_rng(seed)
    of_old, old_right = rng.random(n) < 0.5, rng.random(n) < 0.9
    return of_old, old_right, rng.random(n) >= error, rng.random(n) >= other_error


def test_a_method_and_itself_are_within_noise() -> None:
    of_old, old_right, one, _ = methods(1, 0.2, 0.2)
    draws = differences([joint_cells(of_old, old_right, one, one)])
    for column in COLUMNS:
        assert (draws[column] == 0).all()
        assert is_noise(draws[column])


@pytest.mark.parametrize("seeds", [1, 3])
def test_two_methods_of_one_error_are_within_noise_and_a_planted_difference_is_not(seeds: int) -> None:
    equal = differences([joint_cells(*methods(seed, 0.2, 0.2)) for seed in range(seeds)])
    worse = differences([joint_cells(*methods(seed, 0.3, 0.2)) for seed in range(seeds)])
    for column in ("nfr", "er_old", "er_all"):
        assert is_noise(equal[column])
        assert not is_noise(worse[column])
        assert worse[column].mean() == pytest.approx(0.1, abs=0.03)


def test_differences_that_point_both_ways_over_seeds_are_noise_though_all_samples_together_are_sure() -> None:
    one_way, other_way = joint_cells(*methods(1, 0.34, 0.2)), joint_cells(*methods(2, 0.2, 0.26))
    assert not is_noise(differences([one_way])["er_all"])
    assert not is_noise(differences([other_way])["er_all"])
    assert not is_noise(differences([one_way + other_way])["er_all"])
    assert is_noise(differences([one_way, other_way])["er_all"])


def test_the_draws_spread_as_drawing_the_samples_one_by_one_does() -> None:
    of_old, old_right, one, other = methods(3, 0.3, 0.2, n=300)
    draws = differences([joint_cells(of_old, old_right, one, other)], resamples=4000)
    rng = np.random.default_rng(8)
    plain: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for _ in range(4000):
        at = rng.integers(300, size=300)
        old, kept = of_old[at], old_right[at]
        rates = []
        for right in (one[at], other[at]):
            flips = (old & kept & ~right).sum() / old.sum()
            error = (old & ~right).sum() / old.sum()
            rates.append((flips, flips / ((old & kept).sum() / old.sum() * error), error, (~right).mean()))
        for i, column in enumerate(COLUMNS):
            plain[column].append(rates[0][i] - rates[1][i])
    for column in COLUMNS:
        assert draws[column].mean() == pytest.approx(np.mean(plain[column]), abs=0.1 * np.std(plain[column]))
        assert draws[column].std() == pytest.approx(np.std(plain[column]), rel=0.06)


def test_pairing_takes_out_what_two_methods_have_in_common() -> None:
    of_old, old_right, one, _ = methods(4, 0.3, 0.3)
    better = one.copy()
    better[np.flatnonzero(~one)[:30]] = True
    paired = differences([joint_cells(of_old, old_right, one, better)])
    shuffled = differences(
        [joint_cells(of_old, old_right, one, np.random.default_rng(5).permutation(better))]
    )
    assert not is_noise(paired["er_all"])
    assert is_noise(shuffled["er_all"])


def test_a_rate_that_no_draw_defines_is_noise() -> None:
    right = np.ones(50, dtype=np.bool_)
    draws = differences([joint_cells(right, right, right, right)])
    assert np.isnan(draws["rel_nfr"]).all()
    assert is_noise(draws["rel_nfr"])
