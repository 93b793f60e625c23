"""The optimizer's group of a recipe: learning rate, schedule, batch, and how long it goes on."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from mptctl.recipe.group import Group


class OptimRecipe(Group):
    """How the weights move."""

    name: Literal["sgd", "adamw", "adam"] = Field("sgd", description="optimizer")
    lr: float = Field(0.1, gt=0, description="learning rate at its height")
    lr_for_batch: PositiveInt | None = Field(
        None,
        description="batch that optim.lr is for, and from which it is scaled to batch_size; default: this one",
    )
    lr_scale: Literal["linear", "sqrt"] = Field(
        "linear", description="how the learning rate grows with the batch, where optim.lr_for_batch is set"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty (SGD, Adam) or decoupled decay (AdamW)")
    nesterov: bool = Field(False, description="Nesterov's momentum, for SGD")
    schedule: Literal["cosine", "step", "constant"] = Field(
        "cosine", description="shape of the learning rate"
    )
    step_epochs: PositiveInt = Field(30, description="epochs between two drops of the step schedule")
    milestones: tuple[PositiveInt, ...] | None = Field(
        None, description="epochs after which the step schedule drops, in place of every step_epochs"
    )
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each drop of the step schedule")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of linear warm-up")
    epochs: int = Field(
        100, ge=0, description="passes over the training part; the schedule spans them; 0 trains nothing"
    )
    max_steps: PositiveInt | None = Field(
        None, description="stop after so many steps; the schedule spans them"
    )
    batch_size: PositiveInt = Field(128, ge=2, description="pictures of one optimizer step, over all workers")
    accumulate: PositiveInt = Field(1, description="pieces that a batch is computed in")
    clip_grad_norm: float | None = Field(None, gt=0, description="largest norm of the gradient")
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the average of weights and batch statistics that best.pt holds; 0: no average",
    )

    @model_validator(mode="after")
    def _milestones_drop(self) -> OptimRecipe:
        if self.milestones is not None and self.schedule != "step":
            raise ValueError(
                f"optim.milestones: the {self.schedule} schedule has none; set optim.schedule to step, or "
                "optim.milestones to null"
            )
        if self.milestones is not None and sorted(set(self.milestones)) != list(self.milestones):
            raise ValueError(f"optim.milestones: must rise, got {list(self.milestones)}")
        return self

    @property
    def scaled_lr(self) -> float:
        """The learning rate at its height for this batch: linear in it (Goyal et al. 2017), or in its square root."""
        if self.lr_for_batch is None:
            return self.lr
        ratio = self.batch_size / self.lr_for_batch
        return self.lr * (ratio if self.lr_scale == "linear" else math.sqrt(ratio))
