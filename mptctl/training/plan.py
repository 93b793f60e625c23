"""Checks a request before anything is loaded, and warns of what may go wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mptctl.errors import UsageError
from mptctl.methods.own import try_out
from mptctl.methods.rows import refuse_if_never_on, row_of
from mptctl.names import Role
from mptctl.recipe import OptimRecipe, Recipe
from mptctl.recipe.own import own_parts
from mptctl.training.optimizer.optim import learning_rate
from mptctl.training.request import RunRequest

# A step schedule that ends below this part of its first learning rate brings a warning. ImageNet's usual
# 90 epochs end at a hundredth.
LOWEST_USEFUL_RATE = 1e-3
# A larger part of the training pictures that an epoch leaves out brings a warning, which advises a batch size
# with so many steps an epoch.
LEFT_OUT, ADVISED_STEPS = 0.1, 10


def check_request(request: RunRequest, device: torch.device, workers: int = 1) -> list[str]:
    """Check a request, and return warnings of schedule and batch size, and further notes.

    Args:
        request: the run.
        device: where it would compute.
        workers: number of its processes.

    Raises:
        UsageError: the run cannot be trained as requested, for one of these reasons:
            a teacher is missing that the method needs or begins with; the run ends before the method begins;
            a piece of a worker's batch has too few pictures; `optim.patience` is set without a validation
            part; `runtime.graph` is set without a GPU or with several workers; the function of a method or
            criterion of one's own does what no loss may.
        NonFiniteError: what it returns is not finite.
    """
    recipe, counts = request.recipe, request.class_counts
    _refuse_missing_teachers(request)
    size = RunSize(
        num_classes=request.num_classes,
        num_old=request.split.classes.num_old,
        pictures=int(counts.sum()),
        held_out=request.val_samples[0],
    )
    refuse_untrainable(recipe, size, device, workers)
    return [
        *warn_of_short_schedule(recipe.optim),
        *warn_of_large_batches(recipe, int(counts.sum())),
        *_note_patience(recipe.optim.patience, size.held_out),
    ]


@dataclass(frozen=True, kw_only=True)
class RunSize:
    """The numbers of a run that its recipe has to fit.

    Attributes:
        num_classes, num_old: classes that it knows, and the old ones among them.
        pictures: training pictures of these classes.
        held_out: pictures of its validation part.
    """

    num_classes: int
    num_old: int
    pictures: int
    held_out: int


def refuse_untrainable(recipe: Recipe, size: RunSize, device: torch.device, workers: int = 1) -> None:
    """Refuse a recipe that no run of this size could be trained by; reads no picture and no teacher.

    Raises:
        UsageError, NonFiniteError: as `check_request`, but for teachers.
    """
    batch_size = recipe.optim.batch_size
    if batch_size > size.pictures:
        raise UsageError(
            f"optim.batch_size {batch_size}: more than the {size.pictures} training pictures; use at most "
            f"{size.pictures}"
        )
    refuse_if_never_on(recipe, size.pictures // batch_size)
    _refuse_batch_size(recipe, workers)
    _refuse_graph(recipe, device, workers)
    _note_patience(recipe.optim.patience, size.held_out)
    for own in own_parts(recipe):
        if own.kind != "network":
            try_out(own, own.settings_in(recipe), size.num_classes, size.num_old)


def _refuse_missing_teachers(request: RunRequest) -> None:
    """Raise UsageError if a model is not given that the method needs or the run begins with."""
    method = request.recipe.method
    for role, given, flag in ((Role.OLD, request.old, "--old"), (Role.REF, request.refs, "--ref")):
        if role in row_of(method.name).teachers and not given:
            raise UsageError(f"{method.name}: needs a teacher; name it with {flag} RUN")
    if method.init == "old" and request.old is None:
        raise UsageError("method.init old: begins with the old model; name it with --old RUN")
    if method.init == "ref" and len(request.refs) != 1:
        raise UsageError("method.init ref: begins with the reference; name one with --ref RUN")


def _refuse_batch_size(recipe: Recipe, workers: int) -> None:
    """Raise UsageError if workers and ``optim.accumulate`` cut a batch too small, or part mixed pairs."""
    batch, pieces = recipe.optim.batch_size, recipe.optim.accumulate
    if batch // workers // pieces < 2 <= batch // workers:
        raise UsageError(
            f"optim.accumulate {pieces}: leaves fewer than 2 pictures to a piece of a batch of {batch} on "
            f"each of {workers} workers, and batch normalisation needs 2; set at most {batch // workers // 2}"
        )
    if recipe.data.mixes and batch % (2 * workers * pieces):
        raise UsageError(
            f"optim.batch_size {batch}: data.mixup and data.cutmix mix pictures in pairs, which {workers} "
            f"workers with {pieces} pieces each (optim.accumulate) would part; take a multiple of "
            f"{2 * workers * pieces}"
        )


def takes_graph(recipe: Recipe, device: torch.device, workers: int) -> bool:
    """Tell whether steps are to be replayed as one CUDA graph.

    Args:
        recipe: of the run; where ``runtime.graph`` is null, they are wherever a graph can hold them.
        device: where the run computes.
        workers: number of its processes.
    """
    if recipe.runtime.graph is not None:
        return recipe.runtime.graph
    can_be_held = not recipe.runtime.compile and not recipe.model.dropblock
    return can_be_held and device.type == "cuda" and workers == 1


def _refuse_graph(recipe: Recipe, device: torch.device, workers: int) -> None:
    """Raise UsageError if ``runtime.graph`` is set where a step cannot be captured."""
    if recipe.runtime.graph and device.type != "cuda":
        raise UsageError(
            f"runtime.graph: captures steps on a GPU, and this run computes on the {device.type}; "
            "set it to false"
        )
    if recipe.runtime.graph and workers > 1:
        raise UsageError(f"runtime.graph: takes one worker, and this run has {workers}; set it to false")


def _note_patience(patience: int | None, held_out: int) -> list[str]:
    """Note that ``optim.patience`` may end the run early; no note where it is None.

    Raises:
        UsageError: patience is set, and no validation picture is held out.
    """
    if patience is None:
        return []
    if not held_out:
        raise UsageError(
            f"optim.patience {patience}: looks at the validation part, and this split has none; split with "
            "--val-fraction above 0, or set it to null"
        )
    return [f"ends sooner after {patience} epochs without a lower validation error (optim.patience)"]


def warn_of_short_schedule(optim: OptimRecipe) -> list[str]:
    """Return a warning if a run ends while its learning rate still rises, or where it is too low to learn.

    >>> (warning,) = warn_of_short_schedule(OptimRecipe(lr=0.1, schedule="step", epochs=180, step_epochs=30))
    >>> "optim.schedule step: the learning rate ends at 1e-05 of its first value" in warning
    True
    >>> (warning,) = warn_of_short_schedule(OptimRecipe(epochs=2, warmup_epochs=5))
    >>> "optim.warmup_epochs 5: the run ends after 2 epochs" in warning
    True
    """
    if optim.max_steps is None and 0 < optim.epochs < optim.warmup_epochs:
        return [
            f"warning: optim.warmup_epochs {optim.warmup_epochs:g}: the run ends after {optim.epochs} "
            "epochs, before its learning rate has risen to optim.lr; set fewer, or train longer"
        ]
    if optim.schedule != "step" or not optim.epochs:
        return []
    last = learning_rate(optim, step=optim.epochs - 1, steps_per_epoch=1, total_steps=optim.epochs)
    part = last / optim.scaled_lr
    if part >= LOWEST_USEFUL_RATE:
        return []
    key = "optim.milestones" if optim.milestones else f"optim.step_epochs={math.ceil(optim.epochs / 3)}"
    return [
        f"warning: optim.schedule step: the learning rate ends at {part:.0e} of its first value, too low to "
        f"learn; stretch the schedule over optim.epochs {optim.epochs}, for example {key}"
    ]


def warn_of_large_batches(recipe: Recipe, pictures: int) -> list[str]:
    """Return a warning if each epoch leaves out many pictures, since they fill no batch, or no warning.

    Args:
        recipe: of the run.
        pictures: number of its training pictures.
    """
    batch = recipe.optim.batch_size
    steps, left_out = divmod(pictures, batch)
    if not steps or left_out <= LEFT_OUT * pictures:
        return []
    smaller = max(2, 2 ** int(math.log2(pictures / ADVISED_STEPS)))
    begins_anew = recipe.model.pretrained is None and recipe.method.init == "fresh"
    # So few pictures teach little to random weights at a high rate.
    other = (
        ", or begin with pretrained weights: --recipe finetune --set model.pretrained=FILE"
        if begins_anew and recipe.optim.name == "sgd"
        else ""
    )
    return [
        f"warning: optim.batch_size {batch}: an epoch of {pictures:,} training pictures has {steps} steps "
        f"and leaves out {left_out} of them; set optim.batch_size={smaller}{other}"
    ]
