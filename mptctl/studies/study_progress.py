"""The board of a study: what each run does, who is next, and how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from mptctl.data.split import Split
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.run_folder import RunDir
from mptctl.studies.study_plan import PlannedRun, in_lockstep, total_steps
from mptctl.studies.study_report import Board, RunProgress, Status, StudyRow
from mptctl.studies.study_state import Standing

# Bytes at the end of a metrics file that hold its last whole line; a line has some hundred.
TAIL_BYTES = 4096


class ProgressBoard:
    """Knows of every run whether it waits, runs, or has ended.

    Args:
        runs: each after its teachers.
        splits: by their places.
        found: where each run stands.
        on_update: called with the board whenever something changes.
    """

    def __init__(
        self,
        runs: list[PlannedRun],
        splits: dict[str, Split],
        found: dict[str, Standing],
        on_update: Callable[[Board], None],
    ) -> None:
        self._splits = splits
        self._on_update = on_update
        self._runs = {
            run.key: RunProgress(
                run, "done" if found[run.key] == "done" else "waiting", total_steps(run, splits[run.place])
            )
            for run in runs
        }
        for progress in self._runs.values():
            if progress.status == "done":
                progress.step = progress.total_steps
            elif found[progress.run.key] != "missing":
                self._read(progress)
        self._started = time.monotonic()
        self._first_steps = self._steps()
        self._tell()

    def folder(self, run: PlannedRun) -> Path:
        """Where a run is written."""
        return run.seed_folder(self._splits[run.place]) / run.name

    def runs_of(self, status: Status) -> list[PlannedRun]:
        """Runs of one status, in their order."""
        return [progress.run for progress in self._runs.values() if progress.status == status]

    def next_runs(self, lockstep: int = 1, workers: int = 1) -> list[PlannedRun]:
        """The first run that waits and whose teachers are done, and those that can go in lock-step with it.

        Args:
            lockstep: most runs of one process.
            workers: that have nothing to do, among which such runs are divided.
        """
        done = {run.key for run in self.runs_of("done")}
        ready = [run for run in self.runs_of("waiting") if done.issuperset(run.teachers)]
        return in_lockstep(ready, lockstep, workers)

    def begins(self, run: PlannedRun) -> None:
        """A run has been given to a worker."""
        self._update(run, "running")

    def ends(self, run: PlannedRun) -> None:
        """A run has come to its end."""
        progress = self._runs[run.key]
        progress.step, progress.seconds_left = progress.total_steps, None
        self._update(run, "done")

    def fails(self, run: PlannedRun, error: str) -> None:
        """A run has failed: what learns from it cannot be trained."""
        self._runs[run.key].error = error
        self._update(run, "failed")
        for other in self.runs_of("waiting"):
            lost = [key for key in other.teachers if self._runs[key].status in ("failed", "blocked")]
            if lost:
                self._runs[other.key].error = f"its teacher {lost[0]} failed"
                self._update(other, "blocked")

    def died(self, run: PlannedRun, reason: str, at_most: int) -> None:
        """A run's process has died: it goes on in another one, but not for ever."""
        progress = self._runs[run.key]
        progress.restarts += 1
        if progress.restarts > at_most:
            self.fails(run, f"its process died {progress.restarts} times: {reason[:300]}")
        else:
            self._update(run, "waiting")

    def look(self) -> None:
        """Read how far the running ones are."""
        for progress in self._runs.values():
            if progress.status == "running":
                self._read(progress)
        self._tell()

    def rows(self) -> list[StudyRow]:
        """All runs as they are reported at the end."""
        return [
            StudyRow(
                seed=progress.run.seed,
                run=progress.run.name,
                method=progress.run.method,
                status=progress.status,
                steps=progress.step,
                error=progress.error,
            )
            for progress in self._runs.values()
        ]

    def _update(self, run: PlannedRun, status: Status) -> None:
        self._runs[run.key].status = status
        self._tell()

    def _tell(self) -> None:
        self._on_update(Board(list(self._runs.values()), self._seconds_left()))

    def _read(self, progress: RunProgress) -> None:
        line = last_line(RunDir(self.folder(progress.run)).metrics)
        if line is not None:
            progress.step = line.step
            progress.seconds_left = line.seconds_left

    def _steps(self) -> int:
        return sum(progress.step for progress in self._runs.values())

    def _seconds_left(self) -> float | None:
        """At the rate of all workers together since the study began; None before there is one."""
        done = self._steps() - self._first_steps
        if done <= 0:
            return None
        left = sum(
            progress.total_steps - progress.step
            for progress in self._runs.values()
            if progress.status in ("waiting", "running")
        )
        return left * (time.monotonic() - self._started) / done


def last_line(metrics: Path) -> MetricsLine | None:
    """The last whole line of a run's metrics; None where there is none."""
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
