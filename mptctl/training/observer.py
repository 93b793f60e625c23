"""The observer of a run (a terminal, a sweep, a test), and the result that it is told at the end."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from mptctl.files import Model
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.records import Validation
from mptctl.models.run_folder import RunDir


class TrainSummary(Model):
    """The object that the training commands print with ``--json``."""

    run: str = Field(description="the run folder")
    best: str = Field(description="the checkpoint that evaluate takes")
    steps: int = Field(description="optimizer steps done in all")
    val_error: float | None = Field(description="validation error of the last epoch, a fraction")
    val_error_old: float | None = Field(description="the same on old classes")
    val_nfr: float | None = Field(description="validation NFR of the last epoch, where there is an old model")
    best_val_error: float | None = Field(
        description="validation error of `best`; null without a validation part"
    )
    best_epoch: int | None = Field(
        None, description="epoch of `best`, counted from 1; null without a validation part"
    )
    adjusted: str | None = Field(
        None, description="the checkpoint that keeps --max-nfr, which evaluate takes; null without a budget"
    )
    seconds: float = Field(description="of this process")


@dataclass(frozen=True)
class FitResult:
    """The result of a run.

    Attributes:
        run: its folder.
        steps: optimizer steps done in all.
        validation: of the last epoch.
        trained: steps of this process.
        epochs: of the whole run.
        best: the epoch of ``best.pt``; None without a validation part.
        best_error: validation error of ``best.pt``; None without a validation part.
        seconds: of this process.
        data: the bottleneck of loading and the setting that moves it; None where training hardly waited.
        ended_after: epochs after which the recipe's patience ended it; None where it went its whole length.
    """

    run: RunDir
    steps: int
    trained: int
    epochs: int
    validation: Validation
    best: MetricsLine | None
    best_error: float | None
    seconds: float
    data: str | None
    ended_after: int | None = None

    def summary(self) -> TrainSummary:
        """The result as plain values, for ``--json``."""
        return TrainSummary(
            run=str(self.run.path),
            best=str(self.run.best),
            steps=self.steps,
            val_error=self.validation.error,
            val_error_old=self.validation.error_old,
            val_nfr=self.validation.nfr,
            best_val_error=self.best_error,
            best_epoch=None if self.best is None else self.best.epoch,
            seconds=round(self.seconds, 3),
        )


class Observer:
    """The base of all observers, which are told how a run goes; by itself it stays silent."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Told how many pictures of ``total`` are decoded before a run, or validated after an epoch."""

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """A run begins at ``step`` of ``total_steps``; ``notes`` say what was chosen and why."""

    def line(self, line: MetricsLine) -> None:
        """A line of ``metrics.jsonl`` was written."""

    def finished(self, result: FitResult) -> None:
        """The run has come to its end."""

    def closed(self) -> None:
        """The run is over, whether it came to its end or not."""
