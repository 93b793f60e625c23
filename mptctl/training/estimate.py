"""Estimates of a run: its time from a few steps on random tensors, its memory and disk from sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from mptctl.data.loading.part import Batch
from mptctl.files import Model
from mptctl.machine.device import autocast, place
from mptctl.methods.table import build_method
from mptctl.models.networks import build_model, outline, set_training_mode
from mptctl.recipe import ModelRecipe, Recipe, change_recipe
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.optimizer.optim import build_optimizer
from mptctl.training.run import Student
from mptctl.training.step import train_step

# Pictures of the first timed call; while calls are short, the number is doubled.
FEW_PICTURES = 8
# Seconds. A longer call is not timed again, nor with more pictures.
LONG_CALL = 0.5
# Timed calls with a whole batch, of which the shortest counts.
TIMED_CALLS = 3
# Keys that do not change how long a step is; models that differ only in them are timed once.
NOT_TIMED = {
    "runtime.seed": 0, "optim.lr": 0.1, "optim.epochs": 1, "optim.max_steps": None,
    "method.name": "no-treatment", "model.pretrained": None,
}  # fmt: skip
# Numbers that the optimizer keeps for each trained weight.
OPTIMIZER_STATE = {"sgd": 1, "adamw": 2, "adam": 2}

# A model that is to be timed: its recipe, and how many classes it answers for.
Sized = tuple[Recipe, int]


class Estimate(Model):
    """Time, memory and disk of a run where nothing else computes; reading pictures is not part of it."""

    step_seconds: float = Field(description="of an optimizer step, teachers included")
    seconds: float = Field(description="to the end of the run, validation included")
    teacher_seconds: float = Field(
        0.0, description="of these, the teachers' answers, which runs in lock-step ask for once"
    )
    memory_mb: float = Field(
        0.0,
        description="of a training step, from sizes, in megabytes: weights, gradients, optimizer, what "
        "the backward pass needs, teachers; not pictures that are kept in memory",
    )
    student_mb: float = Field(
        0.0,
        description="of that, weights, gradients and optimizer, which each run in lock-step has of its own",
    )
    disk_mb: float = Field(description="of the run folder, in megabytes, where nothing is written yet")


def lockstep_seconds(seconds: Sequence[float], teacher_seconds: Sequence[float]) -> float:
    """Seconds of one process for runs in lock-step: they ask their teachers as often as the longest run does.

    Args:
        seconds: of each run alone.
        teacher_seconds: of these, its teachers' answers.

    >>> lockstep_seconds([4.0, 6.0], [1.0, 2.5])
    9.0
    """
    return sum(seconds) - sum(teacher_seconds) + max(teacher_seconds)


def estimate_run(
    student: Sized, teachers: Sequence[Sized], *, steps: int, validated: int, device: torch.device
) -> Estimate:
    """Times a training step of the student and a forward pass of each teacher; no weight is read.

    Teachers whose answers are kept on disk are counted as if they answered anew in each step.

    Args:
        student, teachers: recipe of each model, and its classes.
        steps: optimizer steps that are left.
        validated: pictures that all validations of the run look at together.
        device: where it computes.
    """
    recipe, classes = student
    asked = recipe.optim.batch_size * sum(answer_seconds(*teacher, device) for teacher in teachers)
    step = step_seconds(recipe, classes, device) + asked
    validation = answer_seconds(recipe, classes, device) * validated
    return Estimate(
        step_seconds=round(step, 6),
        seconds=round(step * steps + validation, 3),
        teacher_seconds=round(asked * steps, 3),
        memory_mb=round(step_bytes(recipe, classes, teachers) / 1e6, 1),
        student_mb=round(student_bytes(recipe, classes) / 1e6, 1),
        disk_mb=round(run_bytes(recipe, classes) / 1e6, 1),
    )


def step_seconds(recipe: Recipe, num_classes: int, device: torch.device) -> float:
    """Seconds of a training step on random pictures without teachers; timed once for like models."""
    return _seconds_of_batch(change_recipe(recipe, NOT_TIMED, "estimate"), num_classes, device, trains=True)


def answer_seconds(recipe: Recipe, num_classes: int, device: torch.device) -> float:
    """Seconds of a teacher's forward pass for each picture; timed once for models that are alike."""
    alike = change_recipe(recipe, NOT_TIMED, "estimate")
    return _seconds_of_batch(alike, num_classes, device, trains=False) / recipe.optim.batch_size


@cache
def _seconds_of_batch(recipe: Recipe, num_classes: int, device: torch.device, *, trains: bool) -> float:
    """Seconds of a training step, or of a forward pass, with a whole batch.

    A long one is extrapolated from the two largest timed numbers of pictures: a constant, such as moving the
    weights, plus a time for each picture.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(recipe.model, num_classes, recipe.data.image_size)
        model = place(model, device, channels_last=recipe.runtime.channels_last)
        call = (
            _training_step(recipe, model, num_classes, device)
            if trains
            else _teacher_forward(recipe, model, device)
        )

        def seconds_of(count: int) -> float:
            return _time_call(call, _random_batch(recipe, count, num_classes, device))

        whole = recipe.optim.batch_size
        few, count = 2, min(whole, FEW_PICTURES)
        seconds_of(few)  # warm-up
        before, seconds = seconds_of(few), seconds_of(count)
        while seconds < LONG_CALL and count < whole:
            few, before, count = count, seconds, min(whole, 2 * count)
            seconds = seconds_of(count)
        if seconds < LONG_CALL:
            batch = _random_batch(recipe, count, num_classes, device)
            return min(_time_call(call, batch) for _ in range(TIMED_CALLS))
        a_picture = (
            (seconds - before) / (count - few) if seconds > before and count > few else seconds / count
        )
        return seconds + (whole - count) * a_picture


def _training_step(
    recipe: Recipe, model: nn.Module, num_classes: int, device: torch.device
) -> Callable[[Batch], object]:
    """A function that takes one training step on a batch."""
    set_training_mode(model, recipe.model)
    student = Student(
        model=model,
        wrapped=model,
        optimizer=build_optimizer(recipe.optim, model, recipe.model.arch),
        method=build_method("no-treatment", num_old=num_classes),
        teachers=None,
        guard=NonFiniteGuard(model, device),
        precision=recipe.runtime.precision,
    )
    return lambda batch: train_step(student, batch, recipe.optim.lr, len(batch.labels))


def _teacher_forward(recipe: Recipe, model: nn.Module, device: torch.device) -> Callable[[Batch], object]:
    """A function that answers a batch as a teacher does."""
    model.eval()

    @torch.no_grad()
    def answer(batch: Batch) -> object:
        with autocast(device, recipe.runtime.teacher_precision):
            return model(batch.images)

    return answer


def _random_batch(recipe: Recipe, count: int, num_classes: int, device: torch.device) -> Batch:
    images = torch.randn(count, 3, recipe.data.image_size, recipe.data.image_size, device=device)
    if recipe.runtime.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return Batch(images, torch.arange(count, device=device) % num_classes, torch.arange(count))


def _time_call(call: Callable[[Batch], object], batch: Batch) -> float:
    """Seconds of one call, the device's work included."""
    device = batch.images.device
    # On one thread of a CPU its own time, which what else computes there does not change.
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    call(batch)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begin


class _Size(NamedTuple):
    """Bytes of a model's weights and buffers, and of the weights that are trained."""

    all: int
    trained: int


@cache
def _size(recipe: ModelRecipe, num_classes: int, image_size: int) -> _Size:
    model = outline(recipe, num_classes, image_size)
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return _Size(sum(tensor.nbytes for tensor in model.state_dict().values()), trained)


def run_bytes(recipe: Recipe, num_classes: int) -> int:
    """Bytes of a run folder at its largest: best.pt, previous.pt, last.pt, and the next one in writing."""
    size = _size(recipe.model, num_classes, recipe.data.image_size)
    return size.all + 3 * (size.all + OPTIMIZER_STATE[recipe.optim.name] * size.trained)


def student_bytes(recipe: Recipe, num_classes: int) -> int:
    """Bytes of weights, gradients and the optimizer's state, which a run keeps while another has its turn.

    Args:
        recipe: of the model that is trained.
        num_classes: that it answers.
    """
    size = _size(recipe.model, num_classes, recipe.data.image_size)
    return size.all + size.trained * (1 + OPTIMIZER_STATE[recipe.optim.name])


def step_bytes(recipe: Recipe, num_classes: int, teachers: Sequence[Sized]) -> int:
    """Bytes of weights, gradients, optimizer, what the backward pass needs, and the teachers' weights.

    Autocast to bfloat16 takes less for the backward pass; pictures in memory are counted by their loader.

    Args:
        recipe: of the model that is trained.
        num_classes: that it answers.
        teachers: recipe and classes of each.
    """
    of_teachers = sum(_size(its.model, classes, its.data.image_size).all for its, classes in teachers)
    return student_bytes(recipe, num_classes) + _kept_bytes(recipe, num_classes) + of_teachers


def _kept_bytes(recipe: Recipe, num_classes: int) -> int:
    """Bytes that a forward pass on a whole batch keeps for the backward pass, without the weights."""
    side = recipe.data.image_size
    model = outline(recipe.model, num_classes, side).to("meta")
    set_training_mode(model, recipe.model)
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, tuple[Tensor, int]] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            # The tensor is held, so that no other gets its place.
            kept[storage._cdata] = tensor, storage.nbytes()
        return tensor

    images = torch.empty(recipe.optim.batch_size, 3, side, side, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(images)
    return sum(size for _, size in kept.values())
