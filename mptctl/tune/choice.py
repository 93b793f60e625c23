"""The choice among trials: least NFR within a limit on the error, or least error within a limit on NFR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mptctl.evaluation.bias.choice import Budget, near_least_warning
from mptctl.evaluation.decision import ROUNDING
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import upper_bounds
from mptctl.tune.space import K, series_key
from mptctl.tune.tune_report import Trial


class Choice(NamedTuple):
    """The ranking of a table of trials.

    Attributes:
        ranked: names of the trials that may be chosen, the best first.
        front: names of the finished trials that no other one beats in both NFR and error, lowest error first.
        trials: all, each checked against the budget (`within_bound` and `nfr_at_most`).
    """

    ranked: list[str]
    front: list[str]
    trials: list[Trial]


class _Counts(NamedTuple):
    """Flips and errors of a finished trial on the validation samples."""

    flips: float
    errors: float


def choose(trials: Sequence[Trial], reference: Rate, budget: Budget) -> Choice:
    """Rank the trials: by NFR within a limit on the error, or by error within a limit on NFR.

    Only finished trials count, since one that failed or was stopped early would end otherwise when trained
    again. A trial whose NFR is not defined cannot be chosen. Of trials with the same NFR and error, the first
    is taken.

    Args:
        trials: all trials, with rates over the same samples.
        reference: validation error of the reference.
        budget: that the chosen trial has to keep.
    """
    finished = {
        trial.name: _Counts(trial.val_nfr.count, trial.val_error.count)
        for trial in trials
        if trial.status == "done" and trial.val_error and trial.val_nfr and trial.val_nfr.value is not None
    }

    def by_flips(name: str) -> tuple[float, float]:
        return finished[name].flips, finished[name].errors

    def by_errors(name: str) -> tuple[float, float]:
        return finished[name].errors, finished[name].flips

    if budget.max_nfr is None:
        checked = _check_errors(trials, reference, budget)
        order = by_flips
    else:
        checked = check_series(trials, budget)
        order = by_errors
    front = [
        name
        for name, counts in finished.items()
        if not any(_beats(other, counts) for other in finished.values())
    ]
    within = [name for name in finished if checked[name].within_bound]
    return Choice(
        ranked=sorted(within, key=order),
        front=sorted(front, key=by_errors),
        trials=[checked[trial.name] for trial in trials],
    )


def within_bound(error: Rate, reference: Rate, max_er_increase: float) -> bool:
    """Tells whether an error is at most the reference's plus an increase (a fraction), on the same samples.

    Counts are compared, so that an increase of 0.5 points of 200 samples is one sample exactly:

    >>> from mptctl.evaluation.statistics import rate
    >>> [within_bound(rate(errors, 200), rate(30, 200), 0.005) for errors in (31, 32)]
    [True, False]
    """
    return error.count - reference.count <= max_er_increase * error.of + 1e-9


def objective(error: Rate, nfr: Rate, reference: Rate, max_er_increase: float | None) -> float:
    """The number that a search minimises: NFR if the error is within the limit, else 1 + error."""
    if nfr.value is not None and (max_er_increase is None or within_bound(error, reference, max_er_increase)):
        return nfr.value
    return 1.0 + (error.value or 0.0)


def check_series(trials: Sequence[Trial], budget: Budget) -> dict[str, Trial]:
    """Check each trial against a limit on NFR, so that all checks together have the budget's confidence.

    Trials that differ in k alone are a series. A series is tested from its largest k down, until a trial does
    not keep the limit or has failed; trials after it are not within the budget. This is fixed-sequence
    testing, which needs no correction for the length of a series. Since the best trial of all series is
    taken, and the best epoch of each, the error probability is divided equally among series and among epochs
    (Bonferroni's correction).

    Args:
        trials: all trials, also those that wait.
        budget: with a limit on NFR.

    Returns:
        The checked trials by their names.
    """
    series = series_of(trials)
    level = budget.level(series=max(1, len(series)))
    limit = (budget.max_nfr or 0.0) + ROUNDING
    checked = {}
    for members in series:
        # Of all trials of the series so far; None: not known yet.
        all_within: bool | None = True
        for trial in sorted(members, key=lambda member: -float(member.settings.get(K, 0.0))):
            bound = _upper_bound(trial, level)
            if all_within and trial.status in ("waiting", "running"):
                all_within = None
            elif all_within:
                all_within = trial.status == "done" and bound is not None and bound <= limit
            checked[trial.name] = trial.model_copy(update={"within_bound": all_within, "nfr_at_most": bound})
    return checked


def series_of(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Group the trials that differ in k alone."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(series_key(trial.settings), []).append(trial)
    return list(groups.values())


def near_least_of_trials(trials: Sequence[Trial], budget: Budget) -> str | None:
    """Return a warning if a limit on NFR is near the least NFR of the finished trials.

    None if the limit is not near, there is no limit, or no finished trial has an NFR.
    """
    rates = [trial.val_nfr for trial in trials if trial.status == "done" and trial.val_nfr is not None]
    if budget.max_nfr is None or not rates or not rates[0].of:
        return None
    least = min(int(nfr.count) for nfr in rates)
    level = budget.level(series=len(series_of(trials)))
    return near_least_warning(budget.max_nfr, least, int(rates[0].of), level, "a trial", "search larger k")


def _check_errors(trials: Sequence[Trial], reference: Rate, budget: Budget) -> dict[str, Trial]:
    """Check each trial against a limit on the increase of the error; returned by their names."""
    increase = budget.max_er_increase or 0.0
    checked = {}
    for trial in trials:
        within = None if trial.val_error is None else within_bound(trial.val_error, reference, increase)
        checked[trial.name] = trial.model_copy(update={"within_bound": within, "nfr_at_most": None})
    return checked


def _upper_bound(trial: Trial, level: float) -> float | None:
    """The upper end of the exact interval of a trial's NFR at a level; None where the NFR is not defined."""
    nfr = trial.val_nfr
    if nfr is None or not nfr.of:
        return None
    return float(upper_bounds(np.array([nfr.count], dtype=np.int64), int(nfr.of), level)[0])


def _beats(one: _Counts, other: _Counts) -> bool:
    """Tells whether one trial has at most the other's flips and errors, and fewer of one of them."""
    return one != other and one.flips <= other.flips and one.errors <= other.errors
