"""The choice among trials: fewest flips within a limit on the error, or fewest errors within one on NFR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mptctl.evaluation.bias.choice import Budget, near_least_warning
from mptctl.evaluation.decision import ROUNDING
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import upper_bounds
from mptctl.tune.space import series_key
from mptctl.tune.tune_report import Trial


@dataclass(frozen=True)
class BudgetCheck:
    """A trial held against the budget.

    Attributes:
        within: whether it is shown to keep to the budget; None where that is not known yet.
        nfr_at_most: with a limit on NFR, the upper end of the exact interval of its NFR; None before its
            first epoch, and where no validation sample could flip.
    """

    within: bool | None
    nfr_at_most: float | None = None


@dataclass(frozen=True)
class Choice:
    """The ranking of a table of trials.

    Attributes:
        ranked: trials that may be chosen, by name, the best first.
        front: whole trials that no other one beats in both NFR and error, lowest error first.
        checks: by name, each trial held against the budget.
    """

    ranked: list[str]
    front: list[str]
    checks: dict[str, BudgetCheck]


class _Counts(NamedTuple):
    """Counts of a whole trial over the validation samples."""

    flips: float
    errors: float


def choose(trials: Sequence[Trial], reference: Rate, budget: Budget) -> Choice:
    """Ranks the trials: by NFR within a limit on the error, or by error within a limit on NFR.

    Only whole trials count: one that failed or was given up early would come out otherwise when trained
    again. A trial whose NFR is not defined cannot be chosen. Where NFR and error tie, the one named first is
    taken.

    Args:
        trials: all of them, with rates over the same samples.
        reference: validation error of the reference.
        budget: what the choice has to keep to.
    """
    whole = {
        trial.name: _Counts(trial.val_nfr.count, trial.val_error.count)
        for trial in trials
        if trial.status == "done" and trial.val_error and trial.val_nfr and trial.val_nfr.value is not None
    }

    def flips_first(name: str) -> tuple[float, float]:
        return whole[name]

    def errors_first(name: str) -> tuple[float, float]:
        return whole[name].errors, whole[name].flips

    if budget.max_nfr is None:
        checks, order = _check_errors(trials, reference, budget), flips_first
    else:
        checks, order = check_series(trials, budget), errors_first
    able = [name for name in whole if checks[name].within]
    front = [name for name in whole if not any(_beats(other, whole[name]) for other in whole.values())]
    return Choice(sorted(able, key=order), sorted(front, key=errors_first), checks)


def within_bound(error: Rate, reference: Rate, max_er_increase: float) -> bool:
    """Says if an error is at most the reference's plus the increase (a fraction), on the same samples.

    Counts are compared, so that a bound of 0.5 points of 200 samples is one sample exactly:

    >>> from mptctl.evaluation.statistics import rate
    >>> [within_bound(rate(errors, 200), rate(30, 200), 0.005) for errors in (31, 32)]
    [True, False]
    """
    return error.count - reference.count <= max_er_increase * error.of + 1e-9


def objective(error: Rate, nfr: Rate, reference: Rate, max_er_increase: float | None) -> float:
    """The number that a search minimises: NFR within the bound; beyond it 1 + error, above any NFR."""
    if nfr.value is not None and (max_er_increase is None or within_bound(error, reference, max_er_increase)):
        return nfr.value
    return 1.0 + (error.value or 0.0)


def check_series(trials: Sequence[Trial], budget: Budget) -> dict[str, BudgetCheck]:
    """Holds each trial against a limit on NFR.

    Trials that differ in k alone are a series. Each is gone through from its largest k down and ends at the
    first that fails: fixed-sequence testing, which needs no correction for the length of a series. Since the
    best of all series is taken, each has an equal part of the error that the confidence leaves, and of that
    each epoch that could have been a trial's best (Bonferroni's correction). A trial that failed ends its
    series too: what lies below was not reached.

    Args:
        trials: all of them, also those that wait.
        budget: with a limit on NFR.
    """
    series = series_of(trials)
    level = budget.level(series=max(1, len(series)))
    checks = {}
    for members in series:
        reached: bool | None = True
        for trial in sorted(members, key=lambda each: -float(each.settings["k"])):
            bound = _upper_bound(trial, level)
            if reached:
                reached = _keeps(trial, bound, budget)
            checks[trial.name] = BudgetCheck(reached, bound)
    return checks


def series_of(trials: Sequence[Trial]) -> list[list[Trial]]:
    """The trials in groups that differ in k alone."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(series_key(trial.settings), []).append(trial)
    return list(groups.values())


def near_least_of_trials(trials: Sequence[Trial], budget: Budget) -> str | None:
    """A sentence where a budget is near the least NFR that a whole trial has; None where it is not."""
    rates = [trial.val_nfr for trial in trials if trial.status == "done" and trial.val_nfr is not None]
    if budget.max_nfr is None or not rates or not rates[0].of:
        return None
    least, level = min(int(nfr.count) for nfr in rates), budget.level(series=len(series_of(trials)))
    return near_least_warning(budget.max_nfr, least, int(rates[0].of), level, "a trial", "search larger k")


def _check_errors(trials: Sequence[Trial], reference: Rate, budget: Budget) -> dict[str, BudgetCheck]:
    """Holds each trial against a limit on the increase of the error."""
    increase = budget.max_er_increase or 0.0
    return {
        trial.name: BudgetCheck(
            within_bound(trial.val_error, reference, increase) if trial.val_error else None
        )
        for trial in trials
    }


def _upper_bound(trial: Trial, level: float) -> float | None:
    """Upper end of the exact interval of a trial's NFR at a level; None where it has none."""
    nfr = trial.val_nfr
    if nfr is None or not nfr.of:
        return None
    return float(upper_bounds(np.array([nfr.count], dtype=np.int64), int(nfr.of), level)[0])


def _keeps(trial: Trial, bound: float | None, budget: Budget) -> bool | None:
    """Says if a trial keeps a limit on NFR; None while it goes on."""
    if trial.status in ("waiting", "running"):
        return None
    limit = budget.max_nfr
    return trial.status == "done" and bound is not None and limit is not None and bound <= limit + ROUNDING


def _beats(one: _Counts, other: _Counts) -> bool:
    """Says if one is at least as good in both figures, and better in one of them."""
    return one != other and one.flips <= other.flips and one.errors <= other.errors
