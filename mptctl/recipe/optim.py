"""The recipe's group `optim`: the optimizer, its learning rate and the length of training."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from mptctl.recipe.criterion import Group


class OptimRecipe(Group):
    """The optimizer, its learning rate and the length of training."""

    name: Literal["sgd", "adamw", "adam"] = Field("sgd", description="optimizer")
    lr: float = Field(0.1, gt=0, description="highest learning rate")
    lr_for_batch: PositiveInt | None = Field(
        None,
        description="batch size that optim.lr is for; optim.lr is scaled from it to batch_size; "
        "default: not scaled",
    )
    lr_scale: Literal["linear", "sqrt"] = Field(
        "linear", description="how the learning rate grows with the batch size, if optim.lr_for_batch is set"
    )
    layer_decay: float | None = Field(
        None,
        gt=0,
        le=1,
        description="factor of the learning rate from each layer to the one before it; the classifier has "
        "optim.lr",
    )
    head_lr: float | None = Field(
        None,
        gt=0,
        description="highest learning rate of the classifier, scaled to batch_size as optim.lr is and always "
        "in the same proportion to it: a cosine ends at min_lr * head_lr / lr; default: optim.lr",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty (SGD, Adam) or decoupled decay (AdamW)")
    no_decay: bool = Field(False, description="no weight decay on norms, biases and embeddings of positions")
    nesterov: bool = Field(False, description="Nesterov's momentum, for SGD")
    schedule: Literal["cosine", "step", "constant"] = Field(
        "cosine", description="shape of the learning rate"
    )
    step_epochs: PositiveInt = Field(30, description="epochs between two drops of the step schedule")
    milestones: tuple[PositiveInt, ...] | None = Field(
        None, description="epochs after which the step schedule drops, in place of every step_epochs"
    )
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each drop of the step schedule")
    min_lr: float = Field(0.0, ge=0, description="learning rate at the end of a cosine")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of linear warm-up")
    epochs: int = Field(
        100, ge=0, description="passes over the training part; schedule cosine spans them; 0 trains nothing"
    )
    max_steps: PositiveInt | None = Field(
        None, description="stop after so many steps; schedule cosine spans them"
    )
    patience: PositiveInt | None = Field(
        None,
        description="end the run after so many epochs without a lower validation error; not with a cosine",
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
    def _refuse_keys_of_other_schedules(self) -> OptimRecipe:
        """Refuse `min_lr` without a cosine or above the highest rate, and `patience` with a cosine."""
        if self.min_lr and self.schedule != "cosine":
            raise ValueError(
                f"optim.min_lr: is the end of a cosine; set optim.schedule to cosine, got {self.schedule}"
            )
        if self.min_lr > self.scaled_lr:
            raise ValueError(
                f"optim.min_lr: must be at most the rate at its height, {self.scaled_lr:g}, got "
                f"{self.min_lr:g}"
            )
        if self.patience is not None and self.schedule == "cosine":
            raise ValueError(
                "optim.patience: ends a run early, and a cosine spans its whole length; set optim.schedule "
                "to step or constant"
            )
        return self

    @model_validator(mode="after")
    def _refuse_wrong_milestones(self) -> OptimRecipe:
        """Refuse `milestones` without the step schedule, or not in rising order."""
        if self.milestones is not None and self.schedule != "step":
            raise ValueError(
                f"optim.milestones: the {self.schedule} schedule has none; set optim.schedule to step, or "
                "optim.milestones to null"
            )
        if self.milestones is not None and sorted(set(self.milestones)) != list(self.milestones):
            raise ValueError(f"optim.milestones: must rise, got {list(self.milestones)}")
        return self

    def total_steps(self, steps_per_epoch: int) -> int:
        """Number of optimizer steps of a whole run: all epochs, or fewer if `max_steps` is smaller."""
        steps = self.epochs * steps_per_epoch
        return min(steps, self.max_steps or steps)

    @property
    def scaled_lr(self) -> float:
        """The highest learning rate, scaled from batches of `lr_for_batch` to `batch_size`.

        The rate is scaled with the batch size (Goyal et al. 2017) or with its square root.
        """
        if self.lr_for_batch is None:
            return self.lr
        ratio = self.batch_size / self.lr_for_batch
        return self.lr * (ratio if self.lr_scale == "linear" else math.sqrt(ratio))
