"""The choice, on tables made by hand: 100 validation samples, 40 of old classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.statistics import rate
from mptctl.tune.choice import choose, objective, within_bound
from mptctl.tune.tune_report import Status, Trial


def trial(name: str, errors: int, flips: int | None, status: Status = "done", of: int = 40) -> Trial:
    nfr = None if flips is None else rate(flips, of)
    settings: dict[str, str | float] = {"method.name": "mpt-kl", "method.k": 0.0}
    return Trial(
        name=name, settings=settings, status=status, val_error=rate(errors, 100), val_nfr=nfr, run=name
    )


REFERENCE = rate(30, 100)


@pytest.mark.parametrize(
    ("trials", "increase", "ranked", "front"),
    [
        # The bound is 30 + 1 = 31 errors: c has fewer flips but too many errors, d is at the bound exactly.
        # None of these is beaten in both figures: a has the fewest errors, c the fewest flips.
        ({"a": (28, 6), "b": (30, 4), "c": (32, 1), "d": (31, 3)}, 0.01, "d b a", "a b d c"),
        # Ties are decided by error and then by order; two that are equal do not beat each other.
        ({"l": (30, 3), "b": (29, 3), "s": (29, 3), "o": (25, 4)}, 0.0, "b s l o", "o b s"),
        # None within the bound is no choice.
        ({"a": (31, 0), "b": (40, 0)}, 0.0, "", "a"),
        # A negative increase demands less error than the reference.
        ({"a": (29, 5), "b": (28, 9)}, -0.02, "b", "b a"),
    ],
)
def test_the_lowest_nfr_within_the_bound_is_chosen(
    trials: dict[str, tuple[int, int]], increase: float, ranked: str, front: str
) -> None:
    table = [trial(name, *counts) for name, counts in trials.items()]
    choice = choose(table, REFERENCE, Budget(max_er_increase=increase))
    assert (choice.ranked, choice.front) == (ranked.split(), front.split())


@pytest.mark.parametrize("status", ["waiting", "running", "stopped", "failed"])
def test_only_whole_trials_count(status: Status) -> None:
    choice = choose(
        [trial("whole", 30, 9), trial("part", 20, 0, status)], REFERENCE, Budget(max_er_increase=0.0)
    )
    assert choice.ranked == ["whole"]
    assert choice.front == ["whole"]


def test_a_rate_that_is_not_defined_is_never_the_lowest() -> None:
    table = [trial("none", 20, None), trial("empty", 20, 0, of=0), trial("some", 30, 9)]
    assert choose(table, REFERENCE, Budget(max_er_increase=0.0)).ranked == ["some"]
    assert choose(table[:2], REFERENCE, Budget(max_er_increase=0.0)).ranked == []
    assert choose([], REFERENCE, Budget(max_er_increase=0.0)).front == []


def test_half_a_point_of_two_hundred_samples_is_one_sample() -> None:
    # 0.215 - 0.21 is more than 0.005 in binary fractions.
    assert within_bound(rate(43, 200), rate(42, 200), 0.005)
    assert not within_bound(rate(44, 200), rate(42, 200), 0.005)


def test_the_objective_puts_every_trial_within_the_bound_before_every_other() -> None:
    bound = (REFERENCE, 0.01)
    within = objective(rate(31, 100), rate(40, 40), *bound)
    beyond = objective(rate(32, 100), rate(0, 40), *bound)
    further = objective(rate(90, 100), rate(0, 40), *bound)
    assert within == 1.0
    assert within < beyond < further


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8),
    st.integers(-5, 5).map(lambda n: n / 100),
)
def test_the_choice_is_on_the_front_of_what_may_be_chosen(
    table: list[tuple[int, int]], increase: float
) -> None:
    trials = [trial(str(i), 25 + errors, flips) for i, (errors, flips) in enumerate(table)]
    choice = choose(trials, REFERENCE, Budget(max_er_increase=increase))
    able = [t for t in trials if t.val_error and within_bound(t.val_error, REFERENCE, increase)]
    assert sorted(choice.ranked) == sorted(t.name for t in able)
    if choice.ranked:
        assert choice.ranked[0] in choose(able, REFERENCE, Budget(max_er_increase=increase)).front
    for name in choice.front:
        one = table[int(name)]
        assert not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in table)
