"""What one run is made of, where it stands, and who wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.machine.signals import StopRequest
from mptctl.methods.method import Method
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.teachers.source import TeacherSource
from mptctl.training.distributed import ProcessGroup
from mptctl.training.validate import NOT_VALIDATED, Validation, Validator


@dataclass
class Progress:
    """Where a run is.

    Attributes:
        epoch: finished epochs.
        step_in_epoch: optimizer steps done in the epoch after those.
        global_step: optimizer steps done in all.
        best_error: lowest validation error so far, of epochs in which the method is on.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    best_error: float | None = None


@dataclass
class Run:
    """Everything that one run is made of, ready to go.

    Attributes:
        recipe: what to do.
        folder: where it is written.
        meta: what its checkpoints say of themselves; progress is filled in.
        model: the student, on the device.
        method: its loss.
        teachers: its teachers, or None where the method has none.
        optimizer: over the student's weights.
        train: training loader.
        validator: None without a validation part.
        device: where it computes.
        workers: who computes it.
        progress: where it starts.
        stop: set by a signal.
        resume_command: for the message of a run that was stopped.
        notes: what was chosen and why.
        validation: figures of the last epoch so far; n/a before the first.
        resumed_from: the checkpoint that it goes on from; None where it starts.
        owes_validation: whether that checkpoint was saved in mid-epoch, before the validation that follows it.
    """

    recipe: Recipe
    folder: RunDir
    meta: CheckpointMeta
    model: nn.Module
    method: Method
    teachers: TeacherSource | None
    optimizer: torch.optim.Optimizer
    train: Loader
    validator: Validator | None
    device: torch.device
    workers: ProcessGroup
    progress: Progress
    stop: StopRequest
    resume_command: str
    notes: list[str]
    validation: Validation = NOT_VALIDATED
    resumed_from: Path | None = None
    validation_pending: bool = False

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run, which the learning rate spans."""
        steps = self.recipe.optim.epochs * self.train.steps_per_epoch
        return min(steps, self.recipe.optim.max_steps or steps)
