"""What was changed in a model after its training, as its checkpoint and its metrics say it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mptctl.files import Model


class Adjustment(Model):
    """What `adjust` folded into a classifier, and what it was chosen by."""

    adjusted: str = Field(description="name of the run whose model was adjusted")
    digest: str = Field(description="of that model's checkpoint")
    old: str | None = Field(
        None, description="name of the old model; null where only a temperature was fitted"
    )
    kind: Literal["none", "bias", "per-class"] = Field(
        description="bias: one shift for all new classes; per-class: one for each; none: no shift"
    )
    biases: dict[str, float] = Field(
        description="what was taken off the logit of each new class; empty: nothing"
    )
    temperature: float = Field(description="what the logits were divided by afterwards; 1 leaves them")
    max_nfr: float | None = Field(None, description="limit that the bound of NFR met, a fraction")
    max_er_increase: float | None = Field(
        None, description="limit that the rise of the error met, a fraction"
    )
    confidence: float = Field(description="level of the two-sided interval whose upper end is the bound")
    nfr: float | None = Field(None, description="on the validation samples that chose, a fraction")
    bound: float | None = Field(None, description="upper bound of NFR there; it holds where max_nfr is set")
    flips: int | None = Field(None, description="negative flips there")
    samples_old: int | None = Field(None, description="those of old classes; of per-class shifts one half")
