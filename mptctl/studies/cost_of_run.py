"""Counting the work of a run: operations of its network and of its teachers on one picture, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from mptctl.methods.rows import ROWS, start_epoch
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.networks import build_model, set_training_mode
from mptctl.names import Role
from mptctl.studies.training_cost import RunWork, TeacherWork, steps_of
from mptctl.teachers.source import role_of

# Pictures that operations are counted on: batch normalisation needs two.
COUNTED_ON = 2


def count_run(folder: Path, meta: CheckpointMeta, teachers: Mapping[str, Path | None]) -> RunWork:
    """Count the work of a run that is done.

    Args:
        folder: of the run.
        meta: what its checkpoint says of itself.
        teachers: by the names in `meta`, their folders; None where one was not found.
    """
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


def _count_teacher(name: str, folder: Path | None, *, is_asked: bool) -> TeacherWork | None:
    """The work of a teacher: to answer, where it is asked, and to be trained. None where it is not there."""
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
