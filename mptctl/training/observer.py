"""The base of observers of a run (a terminal, a sweep, a test), and the result that they are told."""

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
    val_nfr: float | None = Field(description="validation NFR of the last epoch; null without an old model")
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
        run: the run's folder.
        steps: number of optimizer steps done in all.
        trained: number of optimizer steps that this process did.
        epochs: number of epochs that the recipe plans.
        validation: of the last epoch.
        best: line of the log on the epoch of ``best.pt``; None without a validation part.
        best_error: validation error of ``best.pt``, a fraction; None without a validation part.
        seconds: wall-clock time of this process.
        data: a sentence on what holds loading up and which setting helps; None if training hardly waited.
        ended_after: number of epochs after which ``optim.patience`` ended the run; None otherwise.
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
        """The result as the JSON object of ``--json``; `adjusted` is left out."""
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
    """The base of all observers: each method is told one thing about a run, and does nothing here."""

    def progress(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` pictures are decoded before a run, or validated after an epoch.

        Args:
            what: the pictures, such as "validation pictures".
            done: number of pictures done.
            total: number of all.
        """

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """The run ``name`` begins after ``step`` of ``total_steps``; ``notes`` are choices and warnings."""

    def noted(self, note: str) -> None:
        """Something was decided during the run that its user should know."""

    def line(self, line: MetricsLine) -> None:
        """A line of ``metrics.jsonl`` was written."""

    def finished(self, result: FitResult) -> None:
        """The run has come to its end without an error."""

    def closed(self) -> None:
        """The run is over, with its end reached or after an error."""
