"""An assembled run: what does not change while it trains, the student that learns, and its progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.machine.device import move_to_device
from mptctl.methods.method import Method
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.layers import DropBlock
from mptctl.models.networks import build_model, set_training_mode
from mptctl.models.records import NOT_VALIDATED, BiasPath, Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import TeacherSource
from mptctl.training.bias_control import BiasControl
from mptctl.training.distributed import ProcessGroup
from mptctl.training.optimizer.average import WeightAverage
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.optimizer.optim import build_optimizer
from mptctl.training.validate import Validator


@dataclass(frozen=True)
class Student:
    """The model that learns, and everything that an optimizer step needs.

    Attributes:
        recipe: of the run: precision, parts of a batch, and largest norm of the gradient.
        model: the network itself, on the device.
        wrapped: the module that a step calls: the model, wrapped to average gradients over workers, or
            compiled, or itself.
        optimizer: of the model's trained weights.
        method: the loss.
        teachers: source of teacher logits; None where the method needs none.
        guard: skips updates from the first number on that is not finite.
        group: workers over which gradients are averaged.
        average: moving average of the weights; None where none is kept.
    """

    recipe: Recipe
    model: nn.Module
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    method: Method
    teachers: TeacherSource | None
    guard: NonFiniteGuard
    group: ProcessGroup = field(default_factory=ProcessGroup)
    average: WeightAverage | None = None

    @cached_property
    def drop_blocks(self) -> tuple[DropBlock, ...]:
        """The blocks that count steps; looked for once, since a model may have hundreds of modules."""
        return tuple(module for module in self.model.modules() if isinstance(module, DropBlock))

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated and saved in best.pt: the average if one is kept, else the model."""
        return self.model if self.average is None else self.average.model


def make_student(
    recipe: Recipe,
    model: nn.Module,
    method: Method,
    *,
    wrapped: nn.Module | None = None,
    teachers: TeacherSource | None = None,
    group: ProcessGroup | None = None,
) -> Student:
    """Make the student of a model before its first step, with optimizer, guard and average.

    Args:
        recipe: of the run.
        model: on its device.
        method, wrapped, teachers, group: see `Student`; by default the model is not wrapped, and alone.

    Raises:
        UsageError: ``optim.layer_decay`` is set, and the order of the network's layers is not known.
    """
    return Student(
        recipe=recipe,
        model=model,
        wrapped=model if wrapped is None else wrapped,
        optimizer=build_optimizer(recipe.optim, model, recipe.model.arch),
        method=method,
        teachers=teachers,
        guard=NonFiniteGuard(model, next(model.parameters()).device),
        group=group or ProcessGroup(),
        average=WeightAverage(model, recipe.optim.ema) if recipe.optim.ema else None,
    )


def make_random_student(
    recipe: Recipe,
    num_classes: int,
    device: torch.device,
    method: Method,
    teachers: TeacherSource | None = None,
) -> Student:
    """Make a student with random weights, on a device and in training mode, whose steps are timed.

    Raises:
        UsageError: an unknown architecture, or one that does not fit the recipe.
    """
    model = build_model(recipe.model, num_classes, recipe.data.image_size)
    model = move_to_device(model, device, channels_last=recipe.runtime.channels_last)
    set_training_mode(model, recipe.model)
    return make_student(recipe, model, method, teachers=teachers)


# Fields of a run's state that its checkpoints hold under the same names.
PROGRESS = ("epoch", "step_in_epoch", "global_step", "best_error", "bias_path")


@dataclass
class RunState:
    """The progress of a run, as its checkpoints hold it; only the trainer changes it.

    Attributes:
        epoch: number of finished epochs.
        step_in_epoch: number of optimizer steps done in the current epoch.
        global_step: number of optimizer steps done in all.
        best_error: lowest validation error so far, of epochs that may be the best; a fraction.
        validation: of the last validated epoch; NOT_VALIDATED before the first.
        validation_pending: whether validation is still due for the steps done. So it is in a run of no steps,
            and after a checkpoint that was saved before the epoch's validation.
        bias_path: k and flips of the finished epochs; None where k stays.
        resumed_from: checkpoint that the run continues; None for a new run.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    best_error: float | None = None
    validation: Validation = NOT_VALIDATED
    validation_pending: bool = False
    bias_path: BiasPath | None = None
    resumed_from: Path | None = None


@dataclass(frozen=True)
class Run:
    """An assembled run, ready for its next step.

    Attributes:
        recipe: of the run.
        folder: where the run is written.
        meta: of the run's checkpoints; a checkpoint's progress is added when it is saved.
        device: where the run computes.
        group: the workers of the run.
        train: loader of the training part.
        validator: measures the model after each epoch; None without a validation part.
        total_steps: number of optimizer steps of the whole run.
        notes: what was chosen and why, and warnings.
        student: the model that learns.
        models: all teachers, as loaded models; None where none is given.
        state: the run's progress, which the trainer changes.
        bias_control: moves k to keep a budget of flips; None without one.
        cache_budget: of the disk space for teacher logits; None where none are kept.
    """

    recipe: Recipe
    folder: RunDir
    meta: CheckpointMeta
    device: torch.device
    group: ProcessGroup
    train: Loader
    validator: Validator | None
    total_steps: int
    notes: list[str]
    student: Student
    models: Teachers | None
    state: RunState
    bias_control: BiasControl | None = None
    cache_budget: CacheBudget | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs of the whole run; the last may have fewer steps."""
        return math.ceil(self.total_steps / self.train.steps_per_epoch)

    def open(self) -> None:
        """Decode pictures and make room for cached logits; the run can be trained afterwards.

        Raises:
            DataError: a picture is gone, changed or damaged.
            UsageError: other runs have taken the disk space for cached logits meanwhile.
        """
        self.train.open()
        if self.validator is not None:
            self.validator.loader.open()
        if self.cache_budget is not None:
            self.cache_budget.evict()

    def close(self) -> None:
        """Close the loaders."""
        self.train.close()
        if self.validator is not None:
            self.validator.loader.close()
