"""What a study came to, and how it stands while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from mptctl.files import Model
from mptctl.studies.chain import ChainReport
from mptctl.studies.comparison import Comparison
from mptctl.studies.study_plan import PlannedRun

Status = Literal["waiting", "running", "done", "failed", "blocked"]


@dataclass
class RunProgress:
    """One run on the board.

    Attributes:
        run: as planned.
        status: blocked is what cannot be trained, since a teacher of it failed.
        total_steps: optimizer steps of the whole run.
        step: those that are done.
        seconds_left: to its end, as the run itself expects; None where that is not known.
        restarts: how often it went on in another process after its own had died.
        error: why it failed or is blocked.
    """

    run: PlannedRun
    status: Status
    total_steps: int
    step: int = 0
    seconds_left: float | None = None
    restarts: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Board:
    """How a study stands.

    Attributes:
        runs: all of them, each after its teachers.
        seconds_left: to the end of the study, where enough has been seen to say it.
    """

    runs: list[RunProgress]
    seconds_left: float | None = None

    def count(self, status: Status) -> int:
        """Runs of one status."""
        return sum(run.status == status for run in self.runs)


class StudyRow(Model):
    """One run of a study at its end."""

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
        description="the table of the updates that are done, as compare prints it; null where none is, and for a chain"
    )
    chain: ChainReport | None = Field(
        None, description="the table of a chain of updates, as chain prints it; null for other studies"
    )
    seconds: float = Field(description="from start to end")

    @property
    def failed(self) -> list[StudyRow]:
        """Runs that failed themselves."""
        return [row for row in self.runs if row.status == "failed"]
