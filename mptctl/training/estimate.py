"""Estimates the time of a run by timing steps on random pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import torch
from pydantic import Field
from torch import nn

from mptctl.data.loading.part import Batch
from mptctl.files import Model
from mptctl.machine.device import autocast
from mptctl.methods.table import build_method
from mptctl.recipe import OptimRecipe, Recipe, change_recipe
from mptctl.training.run import Student, make_random_student
from mptctl.training.step import train_step

# Number of pictures of the first timed call.
FEW_PICTURES = 8
# Seconds. Where a whole batch would take longer, its time is taken from the call with few pictures.
LONG_CALL = 2.0
# Number of timed calls with a whole batch; the shortest counts.
TIMED_CALLS = 3
# Recipe keys without effect on the time of a step, set to one value, so that models which differ only in
# these keys are timed once; and a step of few pictures is not cut into parts.
NEUTRAL_FOR_TIME = {
    "runtime.seed": 0, "optim.lr": 0.1, "optim.epochs": 1, "optim.max_steps": None, "optim.accumulate": 1,
    "method.name": "no-treatment", "model.pretrained": None,
}  # fmt: skip


class SizedModel(NamedTuple):
    """A network to be timed: its recipe, and its number of classes."""

    recipe: Recipe
    classes: int


class Program(NamedTuple):
    """A teacher that is a program (ONNX), which has no architecture to build, and its recipe."""

    model: nn.Module
    recipe: Recipe


class Estimate(Model):
    """Time of a run where nothing else computes; reading pictures and validation are not part of it."""

    step_seconds: float = Field(description="of an optimizer step, teachers included")
    seconds: float = Field(description="of all steps that are left")


def estimate_run(
    student: SizedModel,
    networks: Sequence[SizedModel],
    *,
    programs: Sequence[Program] = (),
    steps: int,
    device: torch.device,
) -> Estimate:
    """Estimate a run by timing a training step of the student and a forward pass of each teacher.

    The timed networks have random weights. Teachers with cached logits count like teachers without.

    Args:
        student: the model to be trained.
        networks: the teachers that are networks.
        programs: the teachers that are programs.
        steps: optimizer steps that are left.
        device: where the run computes.
    """
    batch_size = student.recipe.optim.batch_size
    step = _time_batch(_neutral(student.recipe), student.classes, device, trains=True)
    for network in networks:
        own_batch_size = network.recipe.optim.batch_size
        timed = _neutral(_without_optimizer(network.recipe, own_batch_size))
        step += _time_batch(timed, network.classes, device, trains=False) / own_batch_size * batch_size
    for program in programs:
        timed = _without_optimizer(program.recipe, batch_size)
        step += _time_whole_batch(partial(_teach, program.model, timed), timed, 1, device)
    return Estimate(step_seconds=round(step, 6), seconds=round(step * steps, 3))


def _without_optimizer(recipe: Recipe, batch_size: int) -> Recipe:
    """Return the recipe of a teacher, which takes no step: its optimizer may not fit its network."""
    return recipe.model_copy(update={"optim": OptimRecipe(batch_size=batch_size)})


def _neutral(recipe: Recipe) -> Recipe:
    """Return the recipe with NEUTRAL_FOR_TIME, so that models that differ in these keys are timed once."""
    return change_recipe(recipe, NEUTRAL_FOR_TIME, "estimate")


@cache
def _time_batch(recipe: Recipe, num_classes: int, device: torch.device, *, trains: bool) -> float:
    """Time a training step, or a forward pass, of a network with random weights, in seconds."""
    with torch.random.fork_rng(devices=[]):
        student = make_random_student(
            recipe, num_classes, device, build_method("no-treatment", num_old=num_classes)
        )
        call = partial(_train, student) if trains else partial(_teach, student.model.eval(), recipe)
        return _time_whole_batch(call, recipe, num_classes, device)


def _time_whole_batch(
    call: Callable[[Batch], object], recipe: Recipe, num_classes: int, device: torch.device
) -> float:
    """Time a call with a batch of the recipe's size, of random pictures, in seconds.

    A long call is timed with few pictures, and its time taken to grow with their number.
    """
    whole = recipe.optim.batch_size
    few = min(whole, FEW_PICTURES)
    batch = random_batch(recipe, few, num_classes, device)
    _time_call(call, batch)  # warm-up
    seconds = _time_call(call, batch) * whole / few
    if seconds > LONG_CALL:
        return seconds
    batch = random_batch(recipe, whole, num_classes, device)
    return min(_time_call(call, batch) for _ in range(TIMED_CALLS))


def _train(student: Student, batch: Batch) -> object:
    """Take a training step on a batch."""
    return train_step(student, batch, 0.0, len(batch.labels))


@torch.no_grad()
def _teach(model: nn.Module, recipe: Recipe, batch: Batch) -> object:
    """Compute the logits of a teacher for a batch."""
    with autocast(batch.images.device, recipe.runtime.teacher_precision):
        return model(batch.images)


def random_batch(recipe: Recipe, count: int, num_classes: int, device: torch.device) -> Batch:
    """Draw a batch of ``count`` pictures of normal pixels, with labels."""
    images = torch.randn(count, 3, recipe.data.image_size, recipe.data.image_size, device=device)
    if recipe.runtime.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return Batch(images, torch.arange(count, device=device) % num_classes, torch.arange(count))


def _time_call(call: Callable[[Batch], object], batch: Batch) -> float:
    """Time one call, the device's work included, in seconds."""
    device = batch.images.device
    # On one thread of a CPU: the processor time, which other processes hardly change.
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    call(batch)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begin
