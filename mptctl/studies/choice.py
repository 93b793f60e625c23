"""The choice of an update: the rule, its correction, and the report that `compare --choose` prints."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from mptctl.evaluation.paired_bootstrap import BoolArray, FloatArray
from mptctl.files import Model
from mptctl.names import Init
from mptctl.studies.comparison import Counted, Noise

# Costs within this share of each other count as equal.
SAME_COST = 0.02


class ChoiceRow(Model):
    """An update among which one is chosen, shifted to the common error."""

    name: str = Field(description="of its runs where all have one name, else of the method")
    method: str = Field(description="of its recipe")
    init: Init = Field(description="the weights that it began with")
    runs: list[str] = Field(description="their folders, in the order of `seeds`")
    nfr: float = Field(description="negative flips / validation samples of old classes, mean over seeds")
    flips: Counted = Field(description="negative flips and validation samples of old classes, of both halves")
    errors: Counted = Field(description="wrong predictions and validation samples, likewise")
    cost: float | None = Field(description="in plain trainings, mean over seeds; null where not known")
    within_noise: bool = Field(description="not told apart from the row with the fewest flips, or that row")
    is_beaten: bool = Field(
        description="another row has no more flips at no more cost, and less of one of them"
    )


class Estimate(Model):
    """What the chosen update is expected to break on other samples; retraining noise is not in it."""

    nfr: float = Field(description="negative flip rate of the chosen row, corrected for the choice")
    correction: float = Field(
        description="what was added to its own rate: by how much a chosen row looks better on the samples "
        "that choose it, as a mean over redraws of the samples"
    )
    chosen_again: float = Field(description="share of the redraws in which the same row is chosen")


class Choice(Model):
    """The object that ``compare --choose --json`` prints."""

    chosen: str = Field(description="the row: the cheapest that is within noise of the fewest flips")
    fewest_flips: str = Field(description="the row with the fewest flips")
    commands: list[str] = Field(description="train the chosen update, and shift it to the common error")
    seeds: list[int] = Field(description="of the trainings; all rows have them")
    error_of: str = Field(description="the row whose error is common: that of the largest validation error")
    rows: list[ChoiceRow] = Field(description="among which one is chosen")
    estimate: Estimate = Field(description="of the chosen row, on other samples")
    cost: float | None = Field(
        description="of all these trainings and their references, in plain trainings; null where not known"
    )
    noise: Noise = Field(description="how noise was judged")
    notes: list[str] = Field(description="what a reader of the numbers should know")

    @property
    def row(self) -> ChoiceRow:
        """The chosen row."""
        return next(row for row in self.rows if row.name == self.chosen)


def choose_row(flips: FloatArray, cost: FloatArray, least: FloatArray) -> int:
    """Choose the cheapest of R rows that is within noise of the fewest flips.

    A row that another beats (`are_beaten`) is never chosen. Of rows whose costs are within `SAME_COST` of the
    cheapest, the one with the fewest flips is chosen.

    >>> least = 5.0 * (1 - np.eye(3))
    >>> choose_row(np.array([30.0, 22.0, 20.0]), np.array([1.0, 2.0, 2.7]), least)
    1

    Args:
        flips: (R,) of each row, at one error.
        cost: (R,) of each row; infinite where it is not known.
        least: (R, R) the difference in flips beyond which two rows are apart.
    """
    fewest = fewest_flips(flips, cost)
    left = (flips - flips[fewest] <= least[fewest]) & ~are_beaten(flips, cost)
    cheapest = np.flatnonzero(left & (cost <= cost[left].min() * (1 + SAME_COST)))
    return int(cheapest[fewest_flips(flips[cheapest], cost[cheapest])])


def fewest_flips(flips: FloatArray, cost: FloatArray) -> int:
    """The row with the fewest flips; of several such the cheapest."""
    return int(np.lexsort((cost, flips))[0])


def are_beaten(flips: FloatArray, cost: FloatArray) -> BoolArray:
    """(R,) whether another row has no more flips at no more cost, and less of one of them."""
    no_more = (flips[:, None] <= flips) & (cost[:, None] <= cost)
    less = (flips[:, None] < flips) | (cost[:, None] < cost)
    return np.asarray((no_more & less).any(axis=0))


def estimate_choice(flips: FloatArray, draws: FloatArray, cost: FloatArray, least: FloatArray) -> Estimate:
    """Estimate the flips of the chosen row on other samples, corrected for its choice.

    Each redraw of the samples chooses again. The correction is the mean, over redraws, of the flips that the
    row chosen there has on all samples minus those in that redraw (Efron and Tibshirani, An introduction to
    the bootstrap, 1993, chapter 10). Redraws are centred on each row's own flips, so that only the choice is
    corrected.

    Args:
        flips, cost, least: as for `choose_row`.
        draws: (R, D) flips of each row in D redraws, the same for all rows; NaN where not defined.
    """
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    redrawn = flips[:, None] + draws - draws.mean(axis=1, keepdims=True)
    again = np.array([choose_row(each, cost, least) for each in redrawn.T])
    correction = float(np.mean(flips[again] - redrawn[again, np.arange(len(again))]))
    chosen = choose_row(flips, cost, least)
    return Estimate(
        nfr=float(flips[chosen]) + correction,
        correction=correction,
        chosen_again=float(np.mean(again == chosen)),
    )
