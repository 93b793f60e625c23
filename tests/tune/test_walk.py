"""The walk from the largest k down, on tables made by hand: 100 validation samples, 40 of old classes."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.statistics import rate
from mptctl.tune.choice import check_series, choose, near_least_of_trials
from mptctl.tune.tune_report import Status, Trial

REFERENCE = rate(30, 100)


def trial(
    k: float, flips: int, errors: int = 30, status: Status = "done", of: int = 40, **others: float
) -> Trial:
    started = status not in ("waiting", "failed")
    name = "-".join([f"k{k:g}", *(f"{name}{value:g}" for name, value in others.items())])
    settings: dict[str, str | float] = {"method.name": "mpt-kl", "method.k": k, **others}
    error, nfr = (rate(errors, 100), rate(flips, of)) if started else (None, None)
    return Trial(name=name, settings=settings, status=status, val_error=error, val_nfr=nfr, run="run")


def within(table: list[Trial], budget: Budget) -> dict[str, bool | None]:
    return {name: check.within_bound for name, check in check_series(table, budget).items()}


def test_the_bound_is_exact_and_the_walk_ends_at_the_first_that_fails() -> None:
    table = [trial(0, 9), trial(1, 0), trial(2, 3), trial(4, 0), trial(8, 0)]
    kept = check_series(table, Budget(max_nfr=0.09))
    # None of 40 flips: the bound is the rate at which that comes up one time in forty, 1 - 0.025 ** (1 / 40) = 8.81 %.
    assert kept["k4"].nfr_at_most == pytest.approx(1 - 0.025 ** (1 / 40))
    # k = 2 fails, so that k = 1 is not reached, though its own bound is low enough.
    assert {name: each.within_bound for name, each in kept.items()} == {
        "k0": False, "k1": False, "k2": False, "k4": True, "k8": True,
    }  # fmt: skip


def test_the_lowest_error_is_chosen_and_ties_are_decided_by_flips() -> None:
    table = [trial(1, 2, errors=20), trial(2, 1, errors=28), trial(4, 0, errors=28), trial(8, 0, errors=35)]
    choice = choose(table, REFERENCE, Budget(max_nfr=0.14))
    # Bounds of 0, 1 and 2 of 40: 8.8, 13.2 and 16.9 %.
    assert choice.ranked == ["k4", "k2", "k8"]
    assert choice.front == ["k1", "k4"]


def test_each_of_several_series_has_its_part_of_the_error() -> None:
    table = [trial(2, 0), trial(4, 0), trial(2, 0, lr=0.1), trial(4, 9, lr=0.1)]
    kept = check_series(table, Budget(max_nfr=0.105))
    assert kept["k4"].nfr_at_most == pytest.approx(1 - 0.0125 ** (1 / 40))  # 10.4 %
    assert [kept[name].within_bound for name in ("k2", "k4", "k2-lr0.1", "k4-lr0.1")] == [
        True,
        True,
        False,
        False,
    ]


def test_each_epoch_that_could_have_been_the_best_has_its_part_of_the_error() -> None:
    kept = check_series([trial(2, 0), trial(4, 0)], Budget(max_nfr=0.15, epochs=10))
    assert kept["k4"].nfr_at_most == pytest.approx(1 - 0.0025 ** (1 / 40))  # 13.9 %
    kept = check_series([trial(2, 0, lr=0.1), trial(4, 0)], Budget(max_nfr=0.15, epochs=10))
    assert kept["k4"].nfr_at_most == pytest.approx(1 - 0.00125 ** (1 / 40))


def test_a_budget_near_the_least_that_a_trial_has_is_said() -> None:
    table = [trial(2, 3), trial(4, 1), trial(8, 0, status="running")]
    # With 1 of 40 the bound is 13.2 %. Of validation parts drawn at 1 in 40, those with at most 1 flip meet it: 73.6 %.
    said = near_least_of_trials(table, Budget(max_nfr=0.14))
    assert said is not None
    assert "is near the least NFR that a trial can reach here, 2.50 % (1 of 40): about 74 % of" in said
    assert said.endswith("; hold out more pictures, or search larger k")
    assert near_least_of_trials(table, Budget(max_nfr=0.5)) is None
    assert near_least_of_trials(table, Budget(max_er_increase=0.1)) is None


@pytest.mark.parametrize(("status", "below"), [("waiting", None), ("running", None), ("failed", False)])
def test_what_lies_below_a_trial_without_an_end_is_not_shown(status: Status, below: bool | None) -> None:
    found = within([trial(1, 0), trial(2, 0, status=status), trial(4, 0)], Budget(max_nfr=0.09))
    assert found == {"k1": below, "k2": below, "k4": True}


def test_nothing_is_shown_where_nothing_could_flip() -> None:
    assert check_series([trial(4, 0, of=0)], Budget(max_nfr=1.0))["k4"].nfr_at_most is None
    assert within([trial(4, 0, of=0)], Budget(max_nfr=1.0)) == {"k4": False}


def test_a_choice_breaks_its_budget_no_more_often_than_the_confidence_says() -> None:
    """Draws of the validation part, where the true rates of two series are known and lie on both sides of the limit."""
    chance = np.random.default_rng(0)
    truth = {
        (k, lr): 0.1 + slope * (2 - k) for lr, slope in ((0.1, 0.005), (0.2, 0.01)) for k in (0, 1, 1.9, 3, 4)
    }
    broken = chosen = 0
    for _ in range(2_000):
        table = [
            trial(k, int(chance.binomial(400, p)), errors=int(20 + 5 * k), of=400, lr=lr)
            for (k, lr), p in truth.items()
        ]
        ranked = choose(table, REFERENCE, Budget(max_nfr=0.1)).ranked
        if ranked:
            settings = next(t.settings for t in table if t.name == ranked[0])
            chosen += 1
            broken += truth[float(settings["method.k"]), float(settings["lr"])] > 0.1
    assert chosen > 100
    # 2.5 % are allowed; three standard deviations of 2,000 draws are 1 point.
    assert broken / 2_000 <= 0.035
