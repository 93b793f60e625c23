"""What a comparison says of logits: margins, and what a bias after training buys."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mptctl.evaluation.rates import Rate
from mptctl.files import Model


class MarginGroup(Model):
    """Logit margins (true class minus best other class) of one model on one group of samples."""

    model: Literal["old", "new"] = Field(description="whose logits")
    samples: Literal["old classes", "new classes"] = Field(description="the class of the samples")
    n: int = Field(description="samples with a finite margin")
    mean: float | None = Field(description="mean margin, logits")
    quantiles: tuple[float, float, float, float, float] | None = Field(description="5, 25, 50, 75, 95 %")
    negative: Rate = Field(description="margins below zero / n")
    histogram: list[int] = Field(description="counts between `edges`; the outer bins take what lies beyond")


class Margins(Model):
    """Logit margins before and after (Pleiss et al. 2020)."""

    edges: list[float] = Field(description="edges of the histograms, common to all groups")
    groups: list[MarginGroup] = Field(description="old model, and new model on old and on new classes")


class SweepPoint(Model):
    """The rates when `bias` is taken off the logits of the new classes after training."""

    bias: float = Field(
        description="shift in logits: the smallest, in double precision, that gives these rates"
    )
    nfr: float = Field(description="NFR at this shift")
    er_old_classes: float = Field(description="error on samples of old classes")
    er_new_classes: float | None = Field(description="error on samples of the other classes")
    er_all: float = Field(description="error on all samples")


class SweepCurve(Model):
    """NFR and errors of one model as its new classes' logits are shifted after training."""

    name: str = Field(description="the model whose logits are shifted")
    role: Literal["new", "baseline"] = Field(
        description="the model that is judged, or the one given by --baseline"
    )
    points: list[SweepPoint] = Field(
        description="from no shift to the one that leaves no prediction of a new class; of a long curve some 200 steps"
    )
    nfr_at_new_error: float | None = Field(
        description="lowest NFR that any shift reaches at an error on all classes no higher than the new model's own"
    )
    at_new_error: SweepPoint | None = Field(description="where that is: its shift and its errors")
