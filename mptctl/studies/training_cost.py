"""The cost of a training: operations of its model and its teachers, times the steps that it made."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mptctl.files import Model
from mptctl.methods.rows import ROWS, start_epoch
from mptctl.models.metrics_log import MetricsLine, parse_metrics, read_metrics
from mptctl.names import Role

if TYPE_CHECKING:
    from mptctl.models.checkpoint import CheckpointMeta

# Pictures that operations are counted on: batch normalisation needs two.
COUNTED_ON = 2


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


def count_run(folder: Path, meta: CheckpointMeta, teachers: Mapping[str, Path | None]) -> RunWork:
    """Count the work of a run that is done.

    Args:
        folder: of the run.
        meta: what its checkpoint says of itself.
        teachers: by the names in `meta`, their folders; None where one was not found.
    """
    from mptctl.teachers.source import role_of

    recipe = meta.recipe
    parameters, forward, step = count_model(meta)
    steps, per_epoch = steps_of(folder)
    batch = recipe.optim.batch_size
    late = start_epoch(recipe.method) * (per_epoch or 0)
    asked = {name for name in meta.teachers if role_of(name) in ROWS[recipe.method.name].teachers}
    begun = {name for name in meta.teachers if recipe.method.init == "ref" and role_of(name) is Role.REF}
    return RunWork(
        parameters=parameters,
        forward=forward,
        training_step=step,
        pictures=None if steps is None else steps * batch,
        taught_pictures=None if steps is None else max(0, steps - late) * batch,
        teachers={
            name: _count_teacher(name, teachers.get(name), is_asked=name in asked)
            for name in meta.teachers
            if name in asked | begun
        },
    )


def count_model(meta: CheckpointMeta) -> tuple[int, int, int]:
    """Parameters of a model, and operations on one picture: forward, and with backward. By shapes alone."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from mptctl.models.networks import build_model, set_training_mode

    size = meta.recipe.data.image_size
    with torch.device("meta"):
        model = build_model(meta.recipe.model, len(meta.class_names), size)
        pictures = torch.empty(COUNTED_ON, 3, size, size)
    # In training mode: in evaluation attention is computed by one kernel, of which nothing is counted.
    set_training_mode(model, meta.recipe.model)
    with FlopCounterMode(display=False) as counter:
        logits = model(pictures)
        forward = counter.get_total_flops()
        if logits.requires_grad:
            logits.sum().backward()
    both = counter.get_total_flops()
    return sum(p.numel() for p in model.parameters()), forward // COUNTED_ON, both // COUNTED_ON


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


def _count_teacher(name: str, folder: Path | None, *, is_asked: bool) -> TeacherWork | None:
    """The work of a teacher: to answer, where it is asked, and to be trained. None where it is not there."""
    from mptctl.models.checkpoint import load_checkpoint
    from mptctl.teachers.source import role_of

    if folder is None or not (folder / "best.pt").is_file():
        return None
    meta = load_checkpoint(folder / "best.pt").meta
    _, forward, step = count_model(meta)
    forward = forward if is_asked else 0
    if role_of(name) is Role.OLD or meta.origin == "imported":
        return TeacherWork(forward=forward, training=0.0)
    steps, _ = steps_of(folder)
    training = None if steps is None else float(steps * meta.recipe.optim.batch_size * step)
    return TeacherWork(forward=forward, training=training)
