"""The choice: lowest NFR among the trials whose error is within the bound; ties by error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mptctl.evaluation.rates import Rate
from mptctl.tune.tune_report import Trial


@dataclass(frozen=True)
class Choice:
    """What a table of trials says.

    Attributes:
        ranked: trials that may be chosen, by name, the best first.
        front: whole trials that no other one beats in both NFR and error, lowest error first.
    """

    ranked: list[str]
    front: list[str]


def within_bound(error: Rate, reference: Rate, max_er_increase: float) -> bool:
    """Whether an error is at most the reference's plus the increase (a fraction), on the same samples.

    Counts are compared, so that a bound of 0.5 points of 200 samples is one sample exactly.
    """
    return error.count - reference.count <= max_er_increase * error.of + 1e-9


def choose(trials: Sequence[Trial], reference: Rate, max_er_increase: float) -> Choice:
    """Rank the trials.

    Only whole trials count: one that failed or was given up early would come out otherwise when trained again.
    A trial whose NFR is not defined cannot be chosen. Where NFR and error tie, the one named first is taken.

    Args:
        trials: all of them, with rates over the same samples.
        reference: validation error of the reference.
        max_er_increase: a fraction.
    """
    whole = [t for t in trials if t.status == "done" and t.val_error is not None and _defined(t.val_nfr)]
    able = [t for t in whole if t.val_error and within_bound(t.val_error, reference, max_er_increase)]
    ranked = sorted(able, key=_flips_then_error)
    front = [t for t in whole if not any(_beats(other, t) for other in whole)]
    return Choice(_names(ranked), _names(sorted(front, key=lambda t: _flips_then_error(t)[::-1])))


def objective(error: Rate, nfr: Rate, reference: Rate, max_er_increase: float) -> float:
    """What a search minimises: NFR within the bound; beyond it more than any NFR, by how far it is beyond."""
    if nfr.value is not None and within_bound(error, reference, max_er_increase):
        return nfr.value
    return 1.0 + (error.value or 0.0)


def _flips_then_error(trial: Trial) -> tuple[float, float]:
    assert trial.val_nfr is not None
    assert trial.val_error is not None
    return trial.val_nfr.count, trial.val_error.count


def _beats(one: Trial, other: Trial) -> bool:
    """Whether one is at least as good in both figures, and better in one of them."""
    mine, theirs = _flips_then_error(one), _flips_then_error(other)
    return mine != theirs and mine[0] <= theirs[0] and mine[1] <= theirs[1]


def _defined(rate: Rate | None) -> bool:
    return rate is not None and rate.value is not None


def _names(trials: Iterable[Trial]) -> list[str]:
    return [trial.name for trial in trials]
