"""What one run is made of, where it stands, and who wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from mptctl.checkpoint import CheckpointMeta
from mptctl.data.loader import Loader
from mptctl.methods import Method
from mptctl.recipe import Recipe
from mptctl.teachers import TeacherSource
from mptctl.training.distributed import Workers
from mptctl.training.rundir import MetricsLine, RunDir
from mptctl.training.signals import StopRequest
from mptctl.training.validate import Validation, Validator


class Observer(Protocol):
    """What wants to know how a run goes: the terminal, a sweep, a test."""

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """A run begins at ``step`` of ``total_steps``; ``notes`` say what was chosen and why."""
        ...

    def line(self, line: MetricsLine) -> None:
        """A line of ``metrics.jsonl`` was written."""
        ...

    def finished(self, result: FitResult) -> None:
        """The run has come to its end."""
        ...

    def closed(self) -> None:
        """The run is over, whether it came to its end or not."""
        ...


@dataclass
class Progress:
    """Where a run is.

    Attributes:
        epoch: finished epochs.
        step_in_epoch: optimizer steps done in the epoch after those.
        global_step: optimizer steps done in all.
        best_error: lowest validation error so far.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    best_error: float | None = None


@dataclass(frozen=True)
class FitResult:
    """What a run came to.

    Attributes:
        run: its folder.
        steps: optimizer steps done in all.
        validation: of the last epoch.
        best_error: validation error of ``best.pt``; None without a validation part.
        seconds: of this process.
        data: what held the pictures up, and which setting moves it.
    """

    run: RunDir
    steps: int
    validation: Validation
    best_error: float | None
    seconds: float
    data: str


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
    workers: Workers
    progress: Progress
    stop: StopRequest
    resume_command: str
    notes: list[str]

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run, which the learning rate spans."""
        steps = self.recipe.optim.epochs * self.train.steps_per_epoch
        return min(steps, self.recipe.optim.max_steps or steps)
