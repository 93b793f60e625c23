"""The dry run of a training command: describes and estimates a run, decodes no picture, writes nothing."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from mptctl.files import Model
from mptctl.machine.device import choose_device
from mptctl.models.ownership import is_run
from mptctl.models.run_folder import RunDir
from mptctl.names import Part
from mptctl.recipe.picture_words import describe_evaluation_pictures, describe_training_pictures
from mptctl.training.assemble import assemble
from mptctl.training.distributed import ProcessGroup
from mptctl.training.estimate import Estimate, time_step
from mptctl.training.request import RunRequest
from mptctl.training.torch_settings import torch_settings

PARTS: tuple[Part, ...] = ("train", "val", "test")


class DryRun(Model):
    """The object that the training commands print with ``--dry-run --json``."""

    recipe: str = Field("", description="name of the preset, or the file")
    run: str = Field(description="the run folder")
    holds_run: bool = Field(description="whether it holds a run, so that --resume or --overwrite is needed")
    method: str = Field(description="name of the method")
    k: float = Field(description="bias on the logits of new classes; 0 for methods without it")
    max_nfr: float | None = Field(
        None, description="percent; NFR within which k is moved to stay; null where k stays"
    )
    seed: int = Field(description="of initial weights, order and augmentation")
    arch: str = Field(description="architecture")
    image_size: int = Field(description="side of the square that the model sees, pixels")
    seen_in_training: str = Field(description="steps of a picture in training")
    seen_in_evaluation: str = Field(description="steps of a picture in validation and evaluation")
    weights: int = Field(description="trained weights")
    classes: int = Field(description="that the model will know")
    old_classes: int = Field(description="how many of them are old")
    teachers: list[str] = Field(description="checkpoints, the old model first; they were read and fit")
    pictures: dict[Part, int] = Field(description="of these classes, in each part of the split")
    batch_size: int = Field(description="pictures of one optimizer step")
    lr: float = Field(description="learning rate at its height")
    epochs: int = Field(description="passes over the training part")
    steps_per_epoch: int = Field(description="optimizer steps of one epoch")
    total_steps: int = Field(description="optimizer steps of the whole run")
    from_step: int = Field(description="steps done before; above 0 with --resume")
    device: str = Field(description="where it would compute")
    loader: str = Field(description="chosen loader of the training part, and why")
    estimate: Estimate = Field(description="time of the rest of the run")
    notes: list[str] = Field(description="further choices, and warnings")


def dry_run(request: RunRequest, recipe_name: str = "") -> DryRun:
    """Describe a run, and estimate its time by timed steps on random pictures; nothing is written.

    An existing run in the folder is no error, but reported as `holds_run`.

    Args:
        request: the run.
        recipe_name: name of the preset, or the file.

    Raises:
        MptctlError: the reason why the run could not start; see `assemble`.
    """
    recipe, existing = request.recipe, request.existing
    holds_run = is_run(request.folder)
    if holds_run and existing == "refuse":
        existing = "keep"
    RunDir(request.folder).refuse_unusable(existing)
    device = choose_device(recipe.runtime.device)
    with torch_settings(recipe, device):
        run = assemble(request, device, ProcessGroup())
        # Cached logits count like computed ones.
        teachers = run.models if run.student.method.teachers else None
        step_seconds = time_step(replace(run.student, teachers=teachers), request.num_classes, device)
    settings = run.student.method.settings
    return DryRun(
        recipe=recipe_name,
        run=str(request.folder),
        holds_run=holds_run,
        method=run.student.method.name,
        k=float(settings.k),
        max_nfr=None if run.bias_control is None else recipe.method.max_nfr,
        seed=recipe.runtime.seed,
        arch=recipe.model.arch,
        image_size=recipe.data.image_size,
        seen_in_training=describe_training_pictures(recipe.data),
        seen_in_evaluation=describe_evaluation_pictures(recipe.data),
        epochs=recipe.optim.epochs,
        weights=sum(p.numel() for p in run.student.model.parameters() if p.requires_grad),
        classes=request.num_classes,
        old_classes=request.split.classes.num_old,
        teachers=[str(path) for path in request.teachers],
        pictures={part: len(request.split.indices(part, request.num_classes)) for part in PARTS},
        batch_size=recipe.optim.batch_size,
        lr=recipe.optim.scaled_lr,
        steps_per_epoch=run.train.steps_per_epoch,
        total_steps=run.total_steps,
        from_step=run.state.global_step,
        device=str(device),
        loader=run.train.reason,
        estimate=Estimate.of(step_seconds, run.total_steps - run.state.global_step),
        notes=run.notes,
    )
