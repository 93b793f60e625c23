"""What `fewshot --add` prints."""

from __future__ import annotations

from pydantic import Field

from mptctl.files import Model


class AddReport(Model):
    """Which classes were added, and what that costs on validation samples."""

    run: str = Field(description="the run folder that was written")
    best: str = Field(description="the checkpoint that evaluate takes")
    classes: dict[str, int] = Field(description="the new classes, and of how many pictures each was made")
    constant: float = Field(description="what was taken off their logits; below 0 it was added")
    flips: int = Field(description="right predictions on validation samples that a new class took over")
    right: int = Field(description="right predictions there of the run as it was")
    limit: float = Field(description="part of the right predictions that may flip")
    new_right: int = Field(description="validation samples of the new classes that are now answered right")
    new_samples: int = Field(description="validation samples of the new classes; 0 for one of no split")
    own_split: bool = Field(description="the run has a split of its own, since the run root's lacks a class")
    warnings: list[str] = Field(description="what a reader of the numbers should know")
