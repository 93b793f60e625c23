"""Count the work of a run: operations of its network and of its teachers on one picture, and its steps."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from mptctl.methods.rows import ROWS, start_epoch
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.networks import build_model, set_training_mode
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.recipe import ModelRecipe
from mptctl.studies.run_folders import find_by_digest
from mptctl.studies.training_cost import RunWork, TeacherWork, count_steps
from mptctl.teachers.source import role_of

# Pictures that operations are counted on: batch normalisation needs two.
COUNTED_ON = 2


def count_run(folder: Path, meta: CheckpointMeta, beside: Path | None = None) -> RunWork:
    """Count the work of a trained run.

    Args:
        folder: of the run.
        meta: of its checkpoint.
        beside: where the teachers lie, beside this folder; None: beside the run.
    """
    recipe = meta.recipe
    operations = count_model(meta)
    asked_roles = _asked_roles(folder, meta)
    teachers: dict[str, TeacherWork | None] = {}
    for name, digest in meta.teachers.items():
        is_asked = role_of(name) in asked_roles
        gives_weights = recipe.method.init == "ref" and role_of(name) is Role.REF
        if is_asked or gives_weights:
            teacher = find_by_digest(digest, beside or folder)
            teachers[name] = _count_teacher(name, teacher, is_asked=is_asked)
    steps = count_steps(folder)
    pictures = taught_pictures = None
    if steps.total is not None:
        # In its first epochs the method does not ask its teachers yet.
        untaught = start_epoch(recipe.method) * (steps.per_epoch or 0)
        pictures = steps.total * recipe.optim.batch_size
        taught_pictures = max(0, steps.total - untaught) * recipe.optim.batch_size
    return RunWork(
        **operations._asdict(), pictures=pictures, taught_pictures=taught_pictures, teachers=teachers
    )


def _asked_roles(folder: Path, meta: CheckpointMeta) -> frozenset[Role]:
    """The teachers that a run's method learns from, by its folder where it is one's own; else all it had."""
    method = meta.recipe.method.name
    if method in ROWS:
        return ROWS[method].teachers
    kept = [own.teachers for own in RunDir(folder).read_own() if own.kind == "method"]
    return frozenset(kept[0] if kept else map(role_of, meta.teachers))


class ModelOperations(NamedTuple):
    """The size of a network, and its floating point operations on one picture.

    Attributes:
        parameters: of the network.
        forward: operations of a forward pass.
        training_step: operations of a forward and a backward pass.
    """

    parameters: int
    forward: int
    training_step: int


def count_model(meta: CheckpointMeta) -> ModelOperations:
    """Count the parameters and operations of the network of a checkpoint."""
    return count_network(meta.recipe.model, meta.recipe.data.image_size, len(meta.class_names))


@lru_cache(maxsize=64)
def count_network(network: ModelRecipe, size: int, classes: int) -> ModelOperations:
    """Count the parameters and operations of a network by its shapes alone, without its weights.

    Args:
        network: the recipe's group `model`.
        size: of the pictures, in pixels.
        classes: number of logits.
    """
    with torch.device("meta"):
        model = build_model(network, classes, size)
        pictures = torch.empty(COUNTED_ON, 3, size, size)
    # In training mode, since the counter does not see the kernel that computes attention in evaluation.
    set_training_mode(model, network)
    with FlopCounterMode(display=False) as counter:
        logits = model(pictures)
        forward = counter.get_total_flops()
        if logits.requires_grad:
            logits.sum().backward()
    with_backward = counter.get_total_flops()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ModelOperations(parameters, forward // COUNTED_ON, with_backward // COUNTED_ON)


def _count_teacher(name: str, folder: Path | None, *, is_asked: bool) -> TeacherWork | None:
    """Count the work of a teacher: of its forward pass, if it is asked, and of its own training.

    None where its checkpoint is missing. The training of an old or an imported model counts nothing.
    """
    if folder is None or not (folder / "best.pt").is_file():
        return None
    meta = load_checkpoint(folder / "best.pt").meta
    operations = count_model(meta)
    forward = operations.forward if is_asked else 0
    if role_of(name) is Role.OLD or meta.origin == "imported":
        return TeacherWork(forward=forward, training=0.0)
    steps = count_steps(folder).total
    batch = meta.recipe.optim.batch_size
    training = None if steps is None else float(steps * batch * operations.training_step)
    return TeacherWork(forward=forward, training=training)
