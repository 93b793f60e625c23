"""The result of `adjust`: the object that it prints with ``--json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mptctl.files import Model


class Chosen(Model):
    """The shifts and the temperature that were folded into the classifier."""

    kind: Literal["none", "bias"] = Field(description="bias: one shift for all new classes; none: no shift")
    bias: float = Field(description="constant subtracted from every new class's logit")
    biases: dict[str, float] = Field(description="the same by class; empty without a shift")
    temperature: float = Field(description="divisor of the logits afterwards; 1: no change")


class AdjustFigures(Model):
    """Rates on validation samples; NFR is null without an old model, and none is of the test part."""

    nfr: float | None = Field(description="negative flips / samples of old classes (Eq. 7)")
    bound: float | None = Field(
        description="upper end of the exact interval of NFR; where --max-nfr chose, it holds at the "
        "confidence"
    )
    er_all: float = Field(description="error on all classes")
    flips: int | None = Field(description="negative flips")
    samples_old: int | None = Field(description="samples of old classes")
    errors: int = Field(description="wrong predictions")
    samples: int = Field(description="samples: the validation part")
    nll: float | None = Field(description="mean of -log p of the true class, over the classes that it knows")


class AdjustReport(Model):
    """The choice, its rates on validation samples, and the run that was written."""

    chosen: Chosen = Field(description="the change that was folded into the classifier")
    validation: AdjustFigures = Field(description="of the adjusted model, on the samples that chose")
    before: AdjustFigures = Field(description="of the model as it was, on the same samples")
    max_nfr: float | None = Field(description="the limit on NFR, a fraction")
    max_er_increase: float | None = Field(description="the limit on the rise of the error, a fraction")
    confidence: float = Field(description="level of the two-sided interval whose upper end is the bound")
    epochs: int = Field(
        description="epochs of the training; the same samples chose one of them; with max_nfr each has an "
        "equal part of the risk"
    )
    run: str = Field(description="the run folder that was written")
    best: str = Field(description="the checkpoint that evaluate takes")
    warnings: list[str] = Field(description="notes on these numbers")
