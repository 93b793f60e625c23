"""The parts of an assembled run: its fixed context, the student that learns, and its progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.machine.device import Precision
from mptctl.methods.method import Method
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.layers import DropBlock
from mptctl.models.records import NOT_VALIDATED, BiasPath, Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.teachers.source import TeacherSource
from mptctl.training.bias_control import BiasControl
from mptctl.training.distributed import ProcessGroup
from mptctl.training.optimizer.average import WeightAverage
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.validate import Validator


@dataclass(frozen=True)
class RunContext:
    """The part of a run that does not change while it trains.

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
        bias_control: moves k to keep a budget of flips; None without one.
        resumed_from: checkpoint that the run continues; None for a new run.
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
    bias_control: BiasControl | None = None
    resumed_from: Path | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs of the whole run; the last may have fewer steps."""
        return math.ceil(self.total_steps / self.train.steps_per_epoch)


@dataclass(frozen=True)
class Student:
    """The model that learns, and everything that an optimizer step needs.

    Attributes:
        model: the network itself, on the device.
        wrapped: the module that a step calls: the model, wrapped to average gradients over workers, or
            compiled, or itself.
        optimizer: of the model's trained weights.
        method: the loss.
        teachers: source of teacher logits; None where the method needs none.
        guard: skips updates from the first number on that is not finite.
        accumulate: number of parts that a batch is cut into.
        clip_grad_norm: largest norm of the gradient; None: no limit.
        precision: of the forward pass.
        group: workers over which gradients are averaged.
        average: moving average of the weights; None where none is kept.
        notes: on the weights that the model began with.
    """

    model: nn.Module
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    method: Method
    teachers: TeacherSource | None
    guard: NonFiniteGuard
    accumulate: int = 1
    clip_grad_norm: float | None = None
    precision: Precision = "fp32"
    group: ProcessGroup = field(default_factory=ProcessGroup)
    average: WeightAverage | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def drop_blocks(self) -> tuple[DropBlock, ...]:
        """The blocks that count steps; looked for once, since a model may have hundreds of modules."""
        return tuple(module for module in self.model.modules() if isinstance(module, DropBlock))

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated and saved in best.pt: the average if one is kept, else the model."""
        return self.model if self.average is None else self.average.model


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
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    best_error: float | None = None
    validation: Validation = NOT_VALIDATED
    validation_pending: bool = False
    bias_path: BiasPath | None = None


@dataclass(frozen=True)
class Run:
    """An assembled run, ready for its next step."""

    context: RunContext
    student: Student
    state: RunState
