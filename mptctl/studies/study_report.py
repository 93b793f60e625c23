"""The board of a study, with the status and progress of each run; and the report at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from mptctl.data.split import Split
from mptctl.files import Model
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.run_folder import RunDir
from mptctl.studies.comparison import Comparison
from mptctl.studies.study_estimate import sizes_of_split
from mptctl.studies.study_plan import PlannedRun
from mptctl.studies.study_state import Standing

Status = Literal["waiting", "running", "done", "failed", "blocked"]
# Bytes at the end of a metrics file that contain its last whole line; a line has a few hundred.
TAIL_BYTES = 4096


@dataclass
class RunProgress:
    """A run on the board.

    Attributes:
        run: as planned.
        status: ``blocked``: cannot be trained, since one of its teachers failed.
        total_steps: optimizer steps of the whole run.
        step: optimizer steps done.
        seconds_left: to the end of the run, by its own estimate; None where there is none.
        restarts: how often it went on in another process after its own had died.
        error: why it failed or is blocked; None for others.
    """

    run: PlannedRun
    status: Status
    total_steps: int
    step: int = 0
    seconds_left: float | None = None
    restarts: int = 0
    error: str | None = None


class StudyRow(Model):
    """A run of a study at its end."""

    seed: int = Field(description="of the study")
    run: str = Field(description="its folder below that of the seed")
    method: str = Field(description="name of the method")
    status: Status = Field(description="done, failed, or blocked where a teacher of it failed")
    steps: int = Field(description="optimizer steps done in all")
    error: str | None = Field(None, description="why it failed; null where it did not")


class StudyReport(Model):
    """The object that ``study --json`` prints."""

    study: str = Field(description="name of the study")
    run_root: str = Field(description="folder of the seeds, each with its split and its runs")
    seeds: list[int] = Field(description="that were asked for")
    runs: list[StudyRow] = Field(description="all runs, each after its teachers")
    comparison: Comparison | None = Field(
        description="the table of the updates that are done, as compare prints it; null where none is"
    )
    seconds: float = Field(description="from start to end")


class Board:
    """The status and progress of every run of a study.

    Args:
        runs: each after its teachers.
        splits: by their folders.
        standing: of each run, by its key.
        on_update: called with the board at first, and whenever a status changes or progress is read.
    """

    def __init__(
        self,
        runs: list[PlannedRun],
        splits: dict[str, Split],
        standing: dict[str, Standing],
        on_update: Callable[[Board], None],
    ) -> None:
        self._splits = splits
        self._on_update = on_update
        self._runs: dict[str, RunProgress] = {}
        sizes = {folder: sizes_of_split(split) for folder, split in splits.items()}
        for run in runs:
            progress = RunProgress(run, "waiting", sizes[run.split_folder].steps(run))
            self._runs[run.key] = progress
            if standing[run.key] == "done":
                progress.status = "done"
                progress.step = progress.total_steps
            elif standing[run.key] != "missing":
                self._update_progress(progress)
        self._started = time.monotonic()
        self._first_steps = self._steps_done()
        self._on_update(self)

    @property
    def runs(self) -> list[RunProgress]:
        """Status and progress of all runs, each after its teachers."""
        return list(self._runs.values())

    def folder(self, run: PlannedRun) -> Path:
        """The folder that a run is written into."""
        return self._splits[run.split_folder].run_root / run.name

    def runs_of(self, status: Status) -> list[PlannedRun]:
        """The runs of one status, each after its teachers."""
        return [progress.run for progress in self.runs if progress.status == status]

    def next_run(self) -> PlannedRun | None:
        """The first waiting run whose teachers are done; None where there is none."""
        done = {run.key for run in self.runs_of("done")}
        return next((run for run in self.runs_of("waiting") if done.issuperset(run.teachers)), None)

    def mark_running(self, run: PlannedRun) -> None:
        """Note that a run was given to a worker."""
        self._set_status(run, "running")

    def mark_done(self, run: PlannedRun) -> None:
        """Note that a run has come to its end."""
        progress = self._runs[run.key]
        progress.step, progress.seconds_left = progress.total_steps, None
        self._set_status(run, "done")

    def mark_failed(self, run: PlannedRun, error: str) -> None:
        """Note that a run failed, and that waiting runs which need it as a teacher are blocked."""
        self._runs[run.key].error = error
        self._set_status(run, "failed")
        for other in self.runs_of("waiting"):
            untrained = [key for key in other.teachers if self._runs[key].status in ("failed", "blocked")]
            if untrained:
                self._runs[other.key].error = f"its teacher {untrained[0]} failed"
                self._set_status(other, "blocked")

    def restart(self, run: PlannedRun, reason: str, at_most: int) -> None:
        """Put a run whose process died among the waiting ones; after ``at_most`` restarts it has failed."""
        progress = self._runs[run.key]
        progress.restarts += 1
        if progress.restarts > at_most:
            self.mark_failed(run, f"its process died {progress.restarts} times: {reason[:300]}")
        else:
            self._set_status(run, "waiting")

    def read_progress(self) -> None:
        """Read from their metrics how far the running runs are."""
        for progress in self.runs:
            if progress.status == "running":
                self._update_progress(progress)
        self._on_update(self)

    def rows(self) -> list[StudyRow]:
        """All runs, as the report at the end has them."""
        return [
            StudyRow(
                seed=progress.run.seed,
                run=progress.run.name,
                method=progress.run.method,
                status=progress.status,
                steps=progress.step,
                error=progress.error,
            )
            for progress in self.runs
        ]

    def _set_status(self, run: PlannedRun, status: Status) -> None:
        """Change the status of a run, and call `on_update`."""
        self._runs[run.key].status = status
        self._on_update(self)

    def _update_progress(self, progress: RunProgress) -> None:
        """Set step and seconds left from the last line of a run's metrics, if there is one."""
        line = last_line(RunDir(self.folder(progress.run)).metrics)
        if line is not None:
            progress.step = line.step
            progress.seconds_left = line.seconds_left

    def _steps_done(self) -> int:
        """Optimizer steps of all runs, those before this call of the study too."""
        return sum(progress.step for progress in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end of the study, at the rate of its steps so far; None before the first step."""
        done = self._steps_done() - self._first_steps
        if done <= 0:
            return None
        left = sum(
            progress.total_steps - progress.step
            for progress in self.runs
            if progress.status in ("waiting", "running")
        )
        return left * (time.monotonic() - self._started) / done


def last_line(metrics: Path) -> MetricsLine | None:
    """The last whole line of a file of metrics; None where there is no such line, or no file."""
    try:
        with open(metrics, "rb") as file:
            file.seek(max(0, metrics.stat().st_size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None
    for text in reversed(lines):
        try:
            return MetricsLine.model_validate_json(text)
        except ValidationError:
            continue
    return None
