"""What one run is made of, where it stands, and who wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from mptctl.checkpoint import CheckpointMeta
from mptctl.data.loader import Loader
from mptctl.methods import Method
from mptctl.recipe import Recipe
from mptctl.teachers import TeacherSource
from mptctl.training.distributed import Workers
from mptctl.training.rundir import MetricsLine, RunDir
from mptctl.training.signals import StopRequest
from mptctl.training.validate import NOT_VALIDATED, Validation, Validator


class Observer(Protocol):
    """What wants to know how a run goes: the terminal, a sweep, a test."""

    def decoding(self, done: int, total: int) -> None:
        """Before a run begins, its pictures are read into memory: ``done`` of ``total`` are."""
        ...

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
        best_error: lowest validation error so far, of epochs in which the method is on.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0
    best_error: float | None = None


class TrainSummary(BaseModel):
    """The object that the training verbs print with ``--json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(description="the run folder")
    best: str = Field(description="the checkpoint that evaluate takes")
    steps: int = Field(description="optimizer steps done in all")
    val_error: float | None = Field(description="validation error of the last epoch, a fraction")
    val_error_old: float | None = Field(description="the same on old classes")
    val_nfr: float | None = Field(description="validation NFR of the last epoch, where there is an old model")
    best_val_error: float | None = Field(
        description="validation error of `best`; null without a validation part"
    )
    seconds: float = Field(description="of this process")


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

    def summary(self) -> TrainSummary:
        """The same as plain values."""
        return TrainSummary(
            run=str(self.run.path),
            best=str(self.run.best),
            steps=self.steps,
            val_error=self.validation.error,
            val_error_old=self.validation.error_old,
            val_nfr=self.validation.nfr,
            best_val_error=self.best_error,
            seconds=round(self.seconds, 3),
        )


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
    workers: Workers
    progress: Progress
    stop: StopRequest
    resume_command: str
    notes: list[str]
    validation: Validation = NOT_VALIDATED
    resumed_from: Path | None = None
    owes_validation: bool = False

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run, which the learning rate spans."""
        steps = self.recipe.optim.epochs * self.train.steps_per_epoch
        return min(steps, self.recipe.optim.max_steps or steps)
