"""The parts of a run: its context, which stays; the student, which learns; the state, in which it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.machine.device import Precision
from mptctl.methods.method import Method
from mptctl.models.checkpoint import CheckpointMeta
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
    """The part of a run that stays as it is.

    Attributes:
        recipe: what to do.
        folder: where it is written.
        meta: what its checkpoints say of themselves; where the run stands is filled in.
        device: where it computes.
        group: who computes it.
        train: training loader.
        validator: None without a validation part.
        total_steps: optimizer steps of the whole run, which the learning rate spans.
        notes: what was chosen and why.
        bias_control: moves k to keep a budget of flips; None without one.
        resumed_from: checkpoint that the run continues; None where it starts.
        in_lockstep: the run takes turns with others on the same batches.
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
    in_lockstep: bool = False

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, the last of which may end early."""
        return math.ceil(self.total_steps / self.train.steps_per_epoch)


@dataclass(frozen=True)
class Student:
    """The model that learns, and all that a step of it needs.

    Attributes:
        model: on the device.
        wrapped: what is called in a step: the model, wrapped to average gradients over workers or compiled.
        optimizer: over the model's weights.
        method: its loss.
        teachers: its teachers, or None where the method has none.
        guard: against numbers that are not finite.
        accumulate: micro-batches of a batch.
        clip_grad_norm: largest norm of the gradient; None: any.
        precision: of the forward pass.
        group: workers over which gradients are averaged.
        average: moving average of the weights; None where none is kept.
        notes: what the model began with.
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

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated and kept: the average, or the student itself."""
        return self.model if self.average is None else self.average.model


@dataclass
class RunState:
    """The progress of a run, as its checkpoints hold it; only the trainer changes it.

    Attributes:
        epoch: finished epochs.
        step_in_epoch: optimizer steps done in the epoch after those.
        global_step: optimizer steps done in all.
        best_error: lowest validation error so far, of epochs that may be the best.
        validation: of the last epoch so far; n/a before the first.
        validation_pending: the run has no step, or continues a checkpoint that was saved in mid-epoch, before
            the epoch's validation.
        bias_path: k so far, where it is moved.
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
    """A run that is ready to go."""

    context: RunContext
    student: Student
    state: RunState
