"""Plans a run: checks the request, and sets method, loaders and length before any picture is decoded."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import choose_loader
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.errors import UsageError, some
from mptctl.methods.class_weights import compute_class_weights
from mptctl.methods.method import Method
from mptctl.methods.table import method_from_recipe
from mptctl.names import Part, Role
from mptctl.recipe import OptimRecipe, Recipe
from mptctl.recipe.timm_pictures import network_notes
from mptctl.training.bias_control import BiasControl, plan_bias_control
from mptctl.training.distributed import ProcessGroup
from mptctl.training.optimizer.optim import learning_rate
from mptctl.training.request import RunRequest, refuse_too_short

# A class with fewer training pictures brings a warning.
FEW = 10
# A step schedule that ends below this part of its first learning rate brings a warning. ImageNet's usual
# 90 epochs end at a hundredth.
LOWEST_USEFUL_RATE = 1e-3


class UnreadLoader(Loader):
    """Stands for the loader that `choose_loader` chooses: has its sizes and names, and yields no batch.

    Args:
        plan: of the part of the split that would be loaded.
    """

    def __init__(self, plan: LoadPlan) -> None:
        choice = choose_loader(plan)
        self.name = choice.loader.name
        self.decoder = choice.jpeg_decoder
        super().__init__(plan, choice.reason)

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Yield nothing: no picture is read."""
        yield from ()


@dataclass(frozen=True)
class RunPlan:
    """Sizes and choices of a run.

    Attributes:
        method: the run's loss.
        train: loader of the training part.
        val: loader of the validation part; None where the part has no picture of the run's classes.
        val_samples: number of validation samples, and how many of them are of old classes.
        total_steps: number of optimizer steps of the whole run.
        notes: warnings on classes with few pictures, data keys that a network's own config sets, and a note
            if the run may end early.
        bias_control: moves k to keep a budget of flips; None without one.
    """

    method: Method
    train: UnreadLoader
    val: UnreadLoader | None
    val_samples: tuple[int, int]
    total_steps: int
    notes: list[str]
    bias_control: BiasControl | None


def plan_run(request: RunRequest, device: torch.device, group: ProcessGroup | None = None) -> RunPlan:
    """Check a request, and choose the method, the loaders and the length of its run.

    Args:
        request: the run to plan.
        device: where the run would compute.
        group: the workers of the run; None: this process alone.

    Raises:
        UsageError: the run cannot be trained as requested, for one of these reasons:
            a teacher is missing that the method needs or begins with; the run ends before the method begins;
            the training part has no whole batch; a piece of a worker's batch has too few pictures; a budget
            of flips cannot be kept; `optim.patience` is set without a validation part; `runtime.graph` is set
            without a GPU or with several workers.
    """
    recipe, split = request.recipe, request.split
    refuse_too_short(recipe, split, request.num_classes)
    names = split.classes.names[: request.num_classes]
    counts = np.bincount(split.labels[split.indices("train", request.num_classes)], minlength=len(names))
    weights = compute_class_weights(recipe.criterion, names, counts)
    method = method_from_recipe(
        recipe.method,
        split.classes.num_old,
        recipe.criterion,
        recipe.model.true_class_margin,
        None if weights is None else weights.to(device),
    )
    _refuse_missing_teachers(request, method)
    group = group or ProcessGroup()
    _refuse_batch_size(recipe, group.size)
    _refuse_graph(recipe, device, group.size)
    data = recipe.data
    if recipe.runtime.deterministic:
        # The hardware decoder rounds differently, and gets other pictures in each run.
        data = data.model_copy(update={"hw_decoder_load": 0.0})
    load_plan = partial(
        LoadPlan,
        split,
        data,
        batch_size=recipe.optim.batch_size,
        seed=recipe.runtime.seed,
        device=device,
        num_classes=request.num_classes,
    )
    train = UnreadLoader(load_plan("train", train=True, rank=group.rank, world_size=group.size))
    held_out = split.indices("val", request.num_classes)
    val = UnreadLoader(load_plan("val", train=False)) if len(held_out) else None
    notes = [
        *warn_of_few_pictures(names, counts),
        *warn_of_short_schedule(recipe.optim),
        *_note_patience(recipe.optim.patience, val),
    ]
    total_steps = recipe.optim.total_steps(train.steps_per_epoch)
    samples_old = int((split.labels[held_out] < split.classes.num_old).sum())
    epochs = math.ceil(total_steps / train.steps_per_epoch)
    return RunPlan(
        method=method,
        train=train,
        val=val,
        val_samples=(len(held_out), samples_old),
        total_steps=total_steps,
        notes=[*notes, *network_notes(recipe)],
        bias_control=plan_bias_control(
            recipe.method, samples_old, epochs, has_old_model=request.old is not None
        ),
    )


def _refuse_missing_teachers(request: RunRequest, method: Method) -> None:
    """Raise UsageError if a model is not given that the method needs or the run begins with."""
    for role, given, flag in ((Role.OLD, request.old, "--old"), (Role.REF, request.refs, "--ref")):
        if role in method.teachers and not given:
            raise UsageError(f"{method.name}: needs a teacher; name it with {flag} RUN")
    init = request.recipe.method.init
    if init == "old" and request.old is None:
        raise UsageError("method.init old: begins with the old model; name it with --old RUN")
    if init == "ref" and len(request.refs) != 1:
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


def _refuse_graph(recipe: Recipe, device: torch.device, workers: int) -> None:
    """Raise UsageError if ``runtime.graph`` is set where a step cannot be captured."""
    if recipe.runtime.graph and device.type != "cuda":
        raise UsageError(
            f"runtime.graph: captures steps on a GPU, and this run computes on the {device.type}; "
            "set it to false"
        )
    if recipe.runtime.graph and workers > 1:
        raise UsageError(f"runtime.graph: takes one worker, and this run has {workers}; set it to false")


def _note_patience(patience: int | None, val: UnreadLoader | None) -> list[str]:
    """Note that ``optim.patience`` may end the run early; no note where it is None.

    Raises:
        UsageError: patience is set, and there is no validation part.
    """
    if patience is None:
        return []
    if val is None:
        raise UsageError(
            f"optim.patience {patience}: looks at the validation part, and this split has none; split with "
            "--val-fraction above 0, or set it to null"
        )
    return [f"ends sooner after {patience} epochs without a lower validation error (optim.patience)"]


def warn_of_few_pictures(names: Sequence[str], counts: NDArray[np.int64]) -> list[str]:
    """Return a warning that names the classes with fewer than FEW training pictures, or no warning.

    Args:
        names: of the classes.
        counts: (C,) training pictures of each class.

    >>> warn_of_few_pictures(["cat", "dog"], np.array([40, 3]))
    ['warning: fewer than 10 training pictures: dog (3); what is learnt of so few depends on which they are']
    """
    few = [f"{names[i]} ({counts[i]})" for i in np.flatnonzero(counts < FEW).tolist()]
    if not few:
        return []
    return [
        f"warning: fewer than {FEW} training pictures: {some(few)}; what is learnt of so few depends on "
        "which they are"
    ]


def warn_of_short_schedule(optim: OptimRecipe) -> list[str]:
    """Return a warning if the learning rate of a step schedule falls too low to learn, or no warning.

    >>> (warning,) = warn_of_short_schedule(OptimRecipe(lr=0.1, schedule="step", epochs=180, step_epochs=30))
    >>> "optim.schedule step: the learning rate ends at 1e-05 of its first value" in warning
    True
    """
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


def part_sizes(request: RunRequest) -> dict[Part, int]:
    """Count the pictures of the run's classes in each part of the split."""
    parts: tuple[Part, ...] = ("train", "val", "test")
    return {part: len(request.split.indices(part, request.num_classes)) for part in parts}
