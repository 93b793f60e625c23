"""The choice: lowest NFR among the trials whose error is low enough, or lowest error among those that flip few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.rates import Rate
from mptctl.tune.tune_report import Trial
from mptctl.tune.walk import Kept, walk


@dataclass(frozen=True)
class Choice:
    """What a table of trials says.

    Attributes:
        ranked: trials that may be chosen, by name, the best first.
        front: whole trials that no other one beats in both NFR and error, lowest error first.
        kept: by name, whether a trial keeps to the budget, and the upper bound of its NFR where that decides.
    """

    ranked: list[str]
    front: list[str]
    kept: dict[str, Kept]


def within_bound(error: Rate, reference: Rate, max_er_increase: float) -> bool:
    """Whether an error is at most the reference's plus the increase (a fraction), on the same samples.

    Counts are compared, so that a bound of 0.5 points of 200 samples is one sample exactly.
    """
    return error.count - reference.count <= max_er_increase * error.of + 1e-9


def choose(trials: Sequence[Trial], reference: Rate, budget: Budget) -> Choice:
    """Rank the trials: by NFR within a limit on the error, or by error within a limit on NFR.

    Only whole trials count: one that failed or was given up early would come out otherwise when trained again.
    A trial whose NFR is not defined cannot be chosen. Where NFR and error tie, the one named first is taken.

    Args:
        trials: all of them, with rates over the same samples.
        reference: validation error of the reference.
        budget: what the choice has to keep to.
    """
    kept = walk(trials, budget) if budget.max_nfr is not None else _by_error(trials, reference, budget)
    whole = [t for t in trials if t.status == "done" and t.val_error is not None and _defined(t.val_nfr)]
    able = [t for t in whole if kept[t.name].within]
    ranked = sorted(able, key=_error_then_flips if budget.max_nfr is not None else _flips_then_error)
    front = [t for t in whole if not any(_beats(other, t) for other in whole)]
    return Choice(_names(ranked), _names(sorted(front, key=_error_then_flips)), kept)


def _by_error(trials: Sequence[Trial], reference: Rate, budget: Budget) -> dict[str, Kept]:
    assert budget.max_er_increase is not None
    return {
        t.name: Kept(
            None, within_bound(t.val_error, reference, budget.max_er_increase) if t.val_error else None
        )
        for t in trials
    }


def objective(error: Rate, nfr: Rate, reference: Rate, max_er_increase: float | None) -> float:
    """What a search minimises: NFR within the bound; beyond it more than any NFR, by how far it is beyond."""
    if nfr.value is not None and (max_er_increase is None or within_bound(error, reference, max_er_increase)):
        return nfr.value
    return 1.0 + (error.value or 0.0)


def _flips_then_error(trial: Trial) -> tuple[float, float]:
    assert trial.val_nfr is not None
    assert trial.val_error is not None
    return trial.val_nfr.count, trial.val_error.count


def _error_then_flips(trial: Trial) -> tuple[float, float]:
    return _flips_then_error(trial)[::-1]


def _beats(one: Trial, other: Trial) -> bool:
    """Whether one is at least as good in both figures, and better in one of them."""
    mine, theirs = _flips_then_error(one), _flips_then_error(other)
    return mine != theirs and mine[0] <= theirs[0] and mine[1] <= theirs[1]


def _defined(rate: Rate | None) -> bool:
    return rate is not None and rate.value is not None


def _names(trials: Iterable[Trial]) -> list[str]:
    return [trial.name for trial in trials]
