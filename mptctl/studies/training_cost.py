"""The cost of a training: operations of its model and its teachers, times the steps that it made."""

from __future__ import annotations

import gzip
from pathlib import Path

from pydantic import Field

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
        """Of the model's own forward and backward passes."""
        return None if self.pictures is None else float(self.pictures * self.training_step)

    @property
    def asked(self) -> float | None:
        """Of the teachers' forward passes, each of an ensemble's members counted, as if none was kept."""
        if self.taught_pictures is None or None in self.teachers.values():
            return None
        return float(self.taught_pictures * sum(t.forward for t in self.teachers.values() if t is not None))

    @property
    def taught(self) -> float | None:
        """Of training the references, each of an ensemble's members counted; not of the old model."""
        total = 0.0
        for teacher in self.teachers.values():
            if teacher is None or teacher.training is None:
                return None
            total += teacher.training
        return total


def steps_of(folder: Path) -> tuple[int | None, int | None]:
    """Steps that a run made in all, and in its first epoch, by its ``metrics.jsonl``, also a packed one."""
    lines = metrics_of(folder)
    first = next((line.step for line in lines if line.event == "epoch"), None)
    return max((line.step for line in lines), default=None), first


def metrics_of(folder: Path) -> list[MetricsLine]:
    """The lines of ``metrics.jsonl``, or of ``metrics.jsonl.gz``; none where there is neither."""
    packed = folder / "metrics.jsonl.gz"
    if (folder / "metrics.jsonl").exists() or not packed.is_file():
        return read_metrics(folder / "metrics.jsonl")
    with gzip.open(packed, "rt", encoding="utf-8") as stream:
        return parse_metrics(stream.read(), packed)
