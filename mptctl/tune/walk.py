"""Which trials keep a budget of flips: each series of k is walked from its largest down, with a bound that holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mptctl.evaluation.bias.choice import Budget, warn_near_the_least
from mptctl.evaluation.decision import ROUNDING
from mptctl.evaluation.statistics import upper_bounds
from mptctl.tune.tune_report import Trial


@dataclass(frozen=True)
class Kept:
    """What a walk says of one trial.

    Attributes:
        nfr_at_most: upper end of its NFR's exact interval, at the walk's level; None before its first epoch, and where
            no validation sample could flip.
        within: whether its NFR is shown to be within the budget; None while a trial with its k or a larger one goes on.
    """

    nfr_at_most: float | None
    within: bool | None


def walk(trials: Sequence[Trial], budget: Budget) -> dict[str, Kept]:
    """Hold each trial against a budget.

    Trials that differ in k alone are a series. Each is walked from its largest k down and ends at the first that fails:
    fixed-sequence testing, which needs no correction for the length of a series. Since the best of all series is taken,
    each has an equal part of the error that the confidence leaves, and of that each epoch that could have been a
    trial's best (Bonferroni's correction). A trial that failed ends its walk too: what lies below it was not reached.

    Args:
        trials: all of them, also those that wait.
        budget: with a limit on NFR.
    """
    assert budget.max_nfr is not None
    series = series_of(trials)
    level = budget.level(series=max(1, len(series)))
    kept = {}
    for members in series:
        reached: bool | None = True
        for trial in sorted(members, key=lambda each: -float(each.settings["k"])):
            bound = upper_bound(trial, level)
            if reached:
                reached = _holds(trial, bound, budget.max_nfr)
            kept[trial.name] = Kept(bound, reached)
    return kept


def near_least_of_trials(trials: Sequence[Trial], budget: Budget) -> str | None:
    """A sentence where a budget is near the least NFR that a whole trial has; None where it is not."""
    rates = [trial.val_nfr for trial in trials if trial.status == "done" and trial.val_nfr is not None]
    if budget.max_nfr is None or not rates or not rates[0].of:
        return None
    least, level = min(int(nfr.count) for nfr in rates), budget.level(series=len(series_of(trials)))
    return warn_near_the_least(budget.max_nfr, least, int(rates[0].of), level, "a trial")


def series_of(trials: Sequence[Trial]) -> list[list[Trial]]:
    """The trials in groups that differ in k alone."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        others = tuple((name, value) for name, value in trial.settings.items() if name != "k")
        groups.setdefault(others, []).append(trial)
    return list(groups.values())


def upper_bound(trial: Trial, level: float) -> float | None:
    """Upper end of the exact interval of a trial's NFR at a level; None where it has none."""
    nfr = trial.val_nfr
    if nfr is None or not nfr.of:
        return None
    return float(upper_bounds(np.array([nfr.count], dtype=np.int64), int(nfr.of), level)[0])


def _holds(trial: Trial, bound: float | None, limit: float) -> bool | None:
    if trial.status in ("waiting", "running"):
        return None
    return trial.status == "done" and bound is not None and bound <= limit + ROUNDING
