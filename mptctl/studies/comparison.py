"""The reports of a comparison of updates and of a choice among them: a row for each method, with rates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mptctl.files import Model
from mptctl.names import Init, Part

# The rates among which a best one is looked for; the less the better.
Column = Literal["nfr", "rel_nfr", "er_old", "er_all"]
COLUMNS: tuple[Column, ...] = ("nfr", "rel_nfr", "er_old", "er_all")
BIAS_ROW = "plain, bias taken off"


class Spread(Model):
    """A rate over seeds, as fractions."""

    mean: float | None = Field(description="of the values; null where one of them is not defined")
    std: float | None = Field(description="standard deviation, with n - 1; null for one seed")
    values: list[float | None] = Field(description="one for each seed; null where the denominator is zero")


class Counted(Model):
    """Counts behind a rate."""

    values: list[tuple[int, int]] = Field(description="count and denominator, one pair for each seed")


class Cost(Model):
    """Work of an update in plain trainings of its seed, mean over seeds; null where one is not known."""

    own: float | None = Field(description="forward and backward passes of the update itself")
    asked: float | None = Field(
        description="forward passes of its teachers, each member of an ensemble counted"
    )
    taught: float | None = Field(
        description="training of its references; not of the old model, which is there"
    )

    @property
    def total(self) -> float | None:
        """The sum of all parts; None where one is not known."""
        if self.own is None or self.asked is None or self.taught is None:
            return None
        return self.own + self.asked + self.taught


class Difference(Model):
    """A rate of one row minus that of another, over the seeds that both have, as fractions."""

    mean: float | None = Field(description="over seeds; null where it is not defined in one of them")
    low: float | None = Field(
        description="lower end of the interval: of one seed, what another test draw would change with "
        "same trainings; of three and more, what another test draw and other trainings would; null for two "
        "seeds and without an interval"
    )
    high: float | None = Field(description="upper end")
    seeds: int = Field(description="that both have")
    values: list[float | None] = Field(
        description="the difference of each seed; null where it is not defined"
    )


class RowTuning(Model):
    """The tuning of a row before its runs."""

    trials: int = Field(description="trainings that were tried")
    chosen: dict[str, float | str] = Field(description="recipe keys and the values that were chosen")
    cost: float | None = Field(
        description="of all trials together, in units of one plain training; null where not known"
    )


class ComparisonRow(Model):
    """A method on the same seeds."""

    name: str = Field(description="of its runs where all have one name, else of the method")
    method: str = Field(description="of its recipe; or that the plain update was shifted")
    init: Init = Field("fresh", description="the weights that it began with")
    seeds: list[int] = Field(description="of its runs, in the order of all values")
    runs: list[str] = Field(description="their folders")
    nfr: Spread = Field(description="negative flips / test samples of old classes (Eq. 7)")
    rel_nfr: Spread = Field(description="negative flips / those of independent errors (Eq. 8)")
    er_old: Spread = Field(description="error on old classes")
    er_all: Spread = Field(description="error on all classes")
    lost: Spread = Field(description="negative flips / right predictions of the old model")
    pfr: Spread = Field(description="positive flips / test samples of old classes")
    nfi: Spread = Field(description="negative flips / errors of the new model on old classes")
    flips: Counted = Field(description="negative flips and test samples of old classes")
    errors: Counted = Field(description="wrong predictions and test samples")
    cost: float | None = Field(
        description="in units of one plain training, mean over seeds; null where not known"
    )
    cost_parts: Cost = Field(description="the parts of the cost")
    parameters: int = Field(description="of the model, at inference")
    tuning: RowTuning | None = Field(None, description="null where it was not tuned by its study")
    best: list[Column] = Field(
        description="rates with the lowest mean in this row, among the rows with most seeds"
    )
    within_noise_of_best: list[Column] = Field(
        description="rates in which it is not the best and may be as good as the best: the intervals of "
        "all pairs of rows, which hold together at the level of `noise`, contain zero for these two"
    )
    bias: Spread | None = Field(
        None,
        description="constant subtracted from the logits of new classes, for the shifted plain update and "
        "with --equal-error; below zero it was added to them",
    )
    differences: dict[Column, Difference] | None = Field(
        None,
        description="with --against, to that row; null for the row itself and where they have no seed in "
        "common",
    )


class Noise(Model):
    """The rule by which noise was judged."""

    over: Literal["seeds and samples", "samples"] = Field(
        description="source of noise in the intervals; with one seed the samples alone"
    )
    resamples: int = Field(
        description="draws of the paired bootstrap: of test samples, and of the validation samples that "
        "chose a shift"
    )
    level: float = Field(
        description="of the interval of each difference; for `within_noise_of_best`, of the intervals of all "
        "pairs of rows together"
    )


class OldModels(Model):
    """The old models that the updates replace."""

    er_old: Spread = Field(description="their error on test samples of old classes, one value a split")


class CalibrationRow(Model):
    """The calibration of the old models of one name, on test samples of old classes, over seeds."""

    old: str = Field(description="name of their runs")
    seeds: list[int] = Field(description="of their splits, in the order of all values")
    accuracy: Spread = Field(description="right predictions / samples")
    ece: Spread = Field(description="expected calibration error, 15 bins of equal width")
    aece: Spread = Field(description="adaptive calibration error, 15 bins of equal count")
    temperature: Spread = Field(description="fitted on the validation part; null where there is none")
    scaled_ece: Spread = Field(description="`ece` with that temperature")
    scaled_aece: Spread = Field(description="`aece` with that temperature")


class Comparison(Model):
    """The object that `compare --json` prints."""

    rows: list[ComparisonRow] = Field(description="updates only")
    part: Part = Field("test", description="part of the samples; rates named test are rates on it")
    equal_error: str | None = Field(
        None, description="the row at whose validation error all are compared; null: each as it is"
    )
    against: str | None = Field(None, description="the row that `differences` are to")
    old: list[OldModels] = Field(description="the old models that the updates replace")
    calibration: list[CalibrationRow] | None = Field(
        None, description="of old models that are compared by themselves: one row for each name"
    )
    noise: Noise = Field(description="how noise was judged")
    bias_held_against: dict[str, str] = Field(
        description="under all: the row whose validation error the shift of the plain update was chosen at"
    )
    notes: list[str] = Field(description="notes on these numbers")


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
    """The expected flips of the chosen update on other samples; retraining noise is not in them."""

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
    noise: Noise = Field(description="how noise was judged")
    notes: list[str] = Field(description="notes on these numbers")

    @property
    def row(self) -> ChoiceRow:
        """The chosen row."""
        return next(row for row in self.rows if row.name == self.chosen)
