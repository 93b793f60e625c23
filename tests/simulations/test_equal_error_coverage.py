"""Coverage of intervals whose biases were chosen on validation samples, in small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mptctl.evaluation.paired_bootstrap import BiasAtError, BoolArray, CountedUpdate, WrongByBias
from tests.simulations.equal_error_coverage import count_told_apart, measure_coverage

N, N_VAL = 800, 300
# Of 200 redraws: a share of 95 % is known to 1.5 points, one of 5 % likewise.
REDRAWS, RESAMPLES = 200, 200


@pytest.fixture(scope="module")
def two() -> tuple[CountedUpdate, CountedUpdate]:
    """Two updates of unlike errors on the same pictures, at the validation error of the second."""
    rng = np.random.default_rng(4)

    def part(size: int) -> tuple[BoolArray, list[WrongByBias]]:
        of_old = rng.random(size) < 0.5
        common = rng.normal(size=size)
        answers = []
        for ahead, sure in ((1.2, 1.0), (0.2, 1.4)):
            gap = np.where(of_old, -sure, sure) + ahead + common + rng.normal(size=size)
            other = rng.random((2, size)) < 0.1
            answers.append(WrongByBias(gap, of_old | other[0], ~of_old | other[1]))
        return of_old, answers

    (of_old, test), (_, val) = part(N), part(N_VAL)
    old_right, rival_wrong = rng.random(N) < 0.9, val[1].at(0.0)
    first, second = (
        CountedUpdate(answers, of_old, old_right, "test", choice=BiasAtError(held_out, rival_wrong, -np.inf))
        for answers, held_out in zip(test, val, strict=True)
    )
    return first, second


def test_they_cover_where_those_that_know_the_test_samples_alone_do_not(
    two: tuple[CountedUpdate, CountedUpdate],
) -> None:
    chosen = [_at_its_choice(update) for update in two]
    (covered,) = measure_coverage(chosen[:1], chosen[1], REDRAWS, RESAMPLES)
    (fixed,) = measure_coverage(chosen[:1], chosen[1], REDRAWS, RESAMPLES, redraw_choices=False)
    assert covered.value >= 0.925 - 2 * 0.0186  # two Monte Carlo errors of 92.5 %
    assert fixed.value < 0.8


def test_two_equal_updates_are_hardly_ever_told_apart(two: tuple[CountedUpdate, CountedUpdate]) -> None:
    assert count_told_apart(*two, REDRAWS, RESAMPLES).value <= 0.07 + 2 * 0.018


def _at_its_choice(update: CountedUpdate) -> CountedUpdate:
    return replace(update, bias=float(update.choice.choose(np.ones((1, N_VAL)))[0]))
