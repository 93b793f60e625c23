"""The cost of a training: the operations of its model and its teachers, times its steps."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from mptctl.errors import CheckpointError, one_line
from mptctl.files import Model
from mptctl.models.metrics_log import MetricsLine, parse_metrics, read_metrics


class TeacherWork(Model):
    """A teacher of a run."""

    forward: int = Field(
        description="floating point operations of its forward pass on one picture; 0 where it is not asked"
    )
    training: float | None = Field(
        description="of its own training; 0 for the old model, which production has; null where not known"
    )


class RunWork(Model):
    """The work of one training, in floating point operations, a multiplication and an addition being two."""

    parameters: int = Field(description="numbers of the model, all of which inference needs")
    forward: int = Field(description="of the model's forward pass on one picture")
    training_step: int = Field(description="of its forward and backward pass on one picture")
    pictures: int | None = Field(
        description="pictures trained on: steps times batch size; null where not known"
    )
    taught_pictures: int | None = Field(description="pictures of the steps in which teachers were asked")
    teachers: dict[str, TeacherWork | None] = Field(
        description="by name, the teachers that the method asks, and the reference that the run begins with; "
        "null where one is not beside the run"
    )

    @property
    def own(self) -> float | None:
        """Operations of the model's own forward and backward passes; None where its steps are not known."""
        return None if self.pictures is None else float(self.pictures * self.training_step)

    @property
    def asked(self) -> float | None:
        """Operations of all teachers' forward passes, as if no cache saved any; None where not known."""
        if self.taught_pictures is None or None in self.teachers.values():
            return None
        return float(self.taught_pictures * sum(t.forward for t in self.teachers.values() if t is not None))

    @property
    def taught(self) -> float | None:
        """Operations of training all references, but not the old model; None where one is not known."""
        total = 0.0
        for teacher in self.teachers.values():
            if teacher is None or teacher.training is None:
                return None
            total += teacher.training
        return total


class StepCounts(NamedTuple):
    """Optimizer steps of a run.

    Attributes:
        total: in all; None where the run has no metrics.
        per_epoch: of its first epoch; None where that was not finished.
    """

    total: int | None
    per_epoch: int | None


def count_steps(folder: Path) -> StepCounts:
    """Count the optimizer steps of a run by its ``metrics.jsonl``, or by the packed file of that name."""
    lines = metrics_of(folder)
    ends_of_epochs = [line.step for line in lines if line.event == "epoch"]
    total = max((line.step for line in lines), default=None)
    return StepCounts(total, ends_of_epochs[0] if ends_of_epochs else None)


def metrics_of(folder: Path) -> list[MetricsLine]:
    """Read the lines of ``metrics.jsonl``, else of ``metrics.jsonl.gz``; empty where there is neither.

    Raises:
        CheckpointError: the file is damaged.
    """
    packed = folder / "metrics.jsonl.gz"
    if (folder / "metrics.jsonl").exists() or not packed.is_file():
        return read_metrics(folder / "metrics.jsonl")
    try:
        with gzip.open(packed, "rt", encoding="utf-8") as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CheckpointError(f"{packed}: cannot be read ({one_line(error)}); restore it") from error
    return parse_metrics(content, packed)
