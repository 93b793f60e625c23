"""Whole calls that choose on the samples that they test, counted: `tests.simulations.best_epoch_coverage`."""

from __future__ import annotations

import pytest

from mptctl.evaluation.bias.choice import Budget
from tests.simulations.best_epoch_coverage import (
    adjust_call,
    count_calls,
    largest_met,
    made_up_epochs,
    train_call,
    tune_call,
)

# Independent epochs, the worst case, and one new class, so that one walk has the whole level of an epoch.
OWN, NEW = 1.0, 1


def test_the_best_of_independent_epochs_keeps_its_budget() -> None:
    """With an undivided level, 6 of these 40 calls break it."""
    found = count_calls(adjust_call(made_up_epochs(20, OWN, NEW)), 0.14, 2_000, 40)
    assert (found.written, found.broken) == (3, 0)


def test_a_training_whose_k_follows_the_flips_keeps_its_budget() -> None:
    found = count_calls(train_call(made_up_epochs(12, OWN, NEW)), 0.16, 600, 20)
    assert found.written > 5
    assert found.broken <= 2


def test_a_search_whose_trials_are_each_the_best_of_their_epochs_keeps_its_budget() -> None:
    found = count_calls(tune_call(3, OWN, NEW), 0.16, 1_000, 60)
    assert found.written > 30
    # At 2.5 %, 60 calls break it more than 5 times with a probability of 4 in 1,000.
    assert found.broken <= 5


def test_the_largest_rate_that_is_met_by_hand() -> None:
    # Of 40, none may flip within 9 % (the bound of none is 8.81 %): with (1 - p)^40 = 0.8 most parts show none.
    assert largest_met(Budget(max_nfr=0.09), 40) == pytest.approx(1 - 0.8 ** (1 / 40))


@pytest.mark.parametrize("limit", [0.001])
def test_a_budget_that_cannot_be_shown_is_met_by_no_call(limit: float) -> None:
    for call in (adjust_call(made_up_epochs(4, OWN, NEW)), train_call(made_up_epochs(4, OWN, NEW))):
        assert count_calls(call, limit, 200, 2).written == 0
