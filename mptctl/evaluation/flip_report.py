"""The typed result of a comparison: these models are the JSON that `mptctl evaluate --json` prints.

Rates are fractions. A rate whose denominator is zero is not defined and reads `null`, never 0.
Unless a field says otherwise, a rate is over the test samples of the old classes.
"""

from __future__ import annotations

from pydantic import Field

from mptctl.evaluation.rates import Counts, Interval, Rate, Rates
from mptctl.evaluation.verdict import Gate, OldFault
from mptctl.files import Model

# Flips that the JSON lists and the page shows with pictures.
SHOWN_FLIPS = 24


class Bin(Model):
    """A bin of confidence: a bar of a reliability diagram."""

    low: float = Field(description="lower edge of confidence, exclusive but in the first bin")
    high: float = Field(description="upper edge of confidence, inclusive")
    n: int = Field(description="samples in the bin")
    confidence: float | None = Field(description="mean confidence in the bin")
    accuracy: float | None = Field(description="share of right predictions in the bin")


class Errors(Model):
    """Error rates of one model by the class of the sample."""

    old_classes: Rate = Field(description="over samples of old classes")
    new_classes: Rate = Field(description="over samples of the other classes")
    all_classes: Rate = Field(description="over all test samples")


class ModelSummary(Model):
    """One model by itself: its errors and the calibration of its confidence."""

    name: str = Field(description="where its predictions came from")
    classes: int | None = Field(description="number of classes it can predict, where known")
    er_old_classes: float = Field(description="error rate on samples of old classes")
    er_new_classes: float | None = Field(description="error rate on samples of the other classes")
    er_all: float = Field(description="error rate on all test samples")
    knows_new: bool | None = Field(
        default=None, description="whether it can predict any class beside the old ones; null: not known"
    )
    ece: float | None = Field(
        description="expected calibration error, 15 bins of equal width, classes it knows"
    )
    aece: float | None = Field(
        description="adaptive calibration error, 15 bins of equal count, classes it knows"
    )
    errors: Errors = Field(description="the error rates with counts and intervals")
    reliability: list[Bin] | None = Field(description="the bins of `ece`")


class ErrorDifference(Model):
    """The difference of the two models' error rates, over samples of the old classes."""

    value: float = Field(description="error of the new model minus error of the old one")
    ci95: Interval = Field(
        description="95 % interval, from the exact intervals of negative and of positive flips"
    )


class Destinations(Model):
    """Flips by whether the new prediction is an old or a new class."""

    to_old_class: Rate = Field(description="flips whose new prediction is another old class / flips")
    to_new_class: Rate = Field(
        description="flips whose new prediction is a class that the old model did not know / flips"
    )


class ClassRow(Model):
    """Flips and errors of one old class."""

    label: str = Field(description="the true class")
    n: int = Field(description="its test samples")
    negative_flips: int = Field(description="old right, new wrong")
    positive_flips: int = Field(description="old wrong, new right")
    nfr: Rate = Field(description="its negative flips / its samples")
    er_old: float = Field(description="error of the old model on it")
    er_new: float = Field(description="error of the new model on it")
    taken_by: str | None = Field(description="the prediction that took most of its flips")


class PairRow(Model):
    """Flips from one class to one wrong prediction."""

    label: str = Field(description="the true class")
    answer: str = Field(description="the new model's prediction")
    new_class: bool = Field(description="the old model did not know that class")
    flips: int = Field(description="negative flips")


class SliceRow(Model):
    """Flips in one part of the test set, over samples of old classes."""

    by: dict[str, str] = Field(description="its value in each column; empty where the file has none")
    n: int = Field(description="samples")
    negative_flips: int = Field(description="old right, new wrong")
    old_right: int = Field(description="samples that the old model gets right")
    nfr: float = Field(description="negative flips / samples")
    nfr_ci95: Interval = Field(description="exact 95 % interval of it")
    lost: float | None = Field(description="negative flips / right predictions of the old model")
    lost_ci95: Interval | None = Field(description="exact 95 % interval of it")
    p: float = Field(description="one-sided Fisher test: its NFR is no higher than that of all other samples")
    q: float = Field(description="the slice is called worse at this rate of false discoveries and above")
    worse: bool = Field(description="q is below 0.05: worse than the rest")


class MappedClass(Model):
    """A class of --class-map: the common name under which both models are read, and their own names."""

    name: str = Field(description="its name in this report: of a split class the old one, else the new one")
    old: list[str] = Field(description="its names in OLD; several were merged")
    new: list[str] = Field(description="its names in NEW; several: it was split")


class FlippedSample(Model):
    """A sample with a negative flip."""

    id: str = Field(description="the sample")
    label: str = Field(description="the true class, which was the old model's prediction")
    answer: str = Field(description="the new model's prediction")
    new_class: bool = Field(description="the old model did not know that class")
    old_confidence: float | None = Field(description="the old model's confidence in the right prediction")
    new_confidence: float | None = Field(description="the new model's confidence in the wrong one")
    by: dict[str, str] = Field(default={}, description="with --by: its value in each of these columns")
    waived: bool = Field(default=False, description="a waiver of the gate file covers it")
    must_keep: bool = Field(default=False, description="of the samples that the gate file says must be kept")


class FlipReport(Model):
    """The comparison of two models on one test set, as `mptctl evaluate --json` prints it."""

    n: int = Field(description="test samples")
    n_old: int = Field(description="test samples of the old classes")
    counts: Counts = Field(description="the flip table")
    nfr: float = Field(description="negative flip rate")
    pfr: float = Field(description="positive flip rate")
    rel_nfr: float | None = Field(description="NFR / ((1 - ER_old) * ER_new)")
    nfi: float | None = Field(description="negative flips / errors of the new model")
    lost: float | None = Field(description="negative flips / right predictions of the old model")
    churn: float = Field(description="changed predictions / samples")
    old: ModelSummary = Field(description="the model in production")
    new: ModelSummary = Field(description="its replacement")
    nfr_ci95: Interval = Field(description="exact 95 % interval of NFR")
    mcnemar_p: float = Field(description="exact two-sided McNemar test of equal error")
    identical: bool = Field(
        description="old and new are one model: one file, equal tensors, or predictions of equal content"
    )
    unfinished: list[str] = Field(description="models, old or new, whose run did not come to its end")
    old_faults: list[OldFault] = Field(
        default=[], description="why the old model's right predictions say nothing; fails every gate"
    )
    gate: Gate = Field(description="the limits and whether they are kept")
    rates: Rates = Field(description="the flip rates with counts and intervals")
    er_difference: ErrorDifference = Field(description="change of error on samples of old classes")
    destinations: Destinations = Field(description="old class or new class")
    per_class: list[ClassRow] = Field(description="old classes with test samples, most flips first")
    pairs: list[PairRow] = Field(
        description="class to prediction, most flips first: the 1,000 most frequent pairs"
    )
    slices: list[SliceRow] = Field(
        default_factory=list, description="with --by: parts of the test set, lowest q first"
    )
    small_slices: int = Field(
        default=0, description="slices with fewer samples than --min-slice, which are not ranked"
    )
    class_map: list[MappedClass] | None = Field(default=None, description="with --class-map")
    class_labels: dict[str, str] = Field(
        default_factory=dict, description="names for people by class id, as split.json has them"
    )
    never_predicted: list[str] = Field(
        default_factory=list,
        description="where OLD does not say which classes it knows: labels that it never predicts, which "
        "count as new",
    )
    worst_flips: list[FlippedSample] = Field(description="most confident first, at most as many as asked for")
    warnings: list[str] = Field(description="notes on these numbers")

    def with_flips(self, most: int) -> FlipReport:
        """The same report with only the first ``most`` of its `worst_flips`."""
        return self.model_copy(update={"worst_flips": self.worst_flips[:most]})

    def __repr__(self) -> str:
        flips = f"{self.counts.negative_flips:,} / {self.n_old:,}"
        return f"<FlipReport: NFR {100 * self.nfr:.2f} % ({flips}), {self.old.name} -> {self.new.name}>"


class FlipReports(Model):
    """Several replacements, each compared with the one old model."""

    reports: list[FlipReport] = Field(description="one for each NEW, in the order of the command line")
