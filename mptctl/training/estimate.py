"""Estimates the time of a run by timing steps on random pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from pydantic import Field
from torch import nn

from mptctl.data.loading.part import Batch
from mptctl.files import Model
from mptctl.machine.device import autocast
from mptctl.methods.table import build_method
from mptctl.models.networks import set_training_mode
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.run import Student, make_random_student
from mptctl.training.step import train_step

# Number of pictures of the first timed call.
FEW_PICTURES = 8
# Seconds. Where a whole batch would take longer, its time is taken from the call with few pictures.
LONG_CALL = 2.0
# Number of timed calls with a whole batch; the shortest counts.
TIMED_CALLS = 3
# Recipe keys without effect on the time of a step, set to one value, so that models which differ only in
# these keys are timed once.
NEUTRAL_FOR_TIME = {
    "runtime.seed": 0, "optim.lr": 0.1, "optim.epochs": 1, "optim.max_steps": None, "optim.accumulate": 1,
    "method.name": "no-treatment", "model.pretrained": None,
}  # fmt: skip


class Estimate(Model):
    """Time of a run where nothing else computes; reading pictures and validation are not part of it."""

    step_seconds: float = Field(description="of an optimizer step, teachers included")
    seconds: float = Field(description="of all steps that are left")

    @classmethod
    def of(cls, step_seconds: float, steps: int) -> Estimate:
        """The estimate for a number of steps."""
        return cls(step_seconds=round(step_seconds, 6), seconds=round(step_seconds * steps, 3))


def time_step(student: Student, num_classes: int, device: torch.device) -> float:
    """Time an optimizer step on a whole batch, the student's teachers included, in seconds.

    Args:
        student: of a run that is not trained in this process, since its optimizer moves.
        num_classes: that the student knows.
        device: of the student.
    """
    # A step of few pictures is not cut into parts.
    recipe = change_recipe(student.recipe, {"optim.accumulate": 1}, "estimate")
    set_training_mode(student.model, recipe.model)
    timed = replace(student, recipe=recipe, wrapped=student.model)  # not compiled, which may take minutes
    return _time_whole_batch(
        lambda batch: train_step(timed, batch, 0.0, len(batch.labels)), recipe, num_classes, device
    )


def time_untrained(
    recipe: Recipe, num_classes: int, device: torch.device, *, batch_size: int, trains: bool
) -> float:
    """Time a training step without teachers, or a forward pass, of a network with random weights, in seconds.

    Networks that differ only in what has no effect on the time are timed once.

    Args:
        recipe: of the network.
        num_classes: that it knows.
        device: where it computes.
        batch_size: pictures of the step.
        trains: time a step, not a forward pass.
    """
    neutral = change_recipe(recipe, NEUTRAL_FOR_TIME | {"optim.batch_size": batch_size}, "estimate")
    return _time_neutral(neutral, num_classes, device, trains)


@cache
def _time_neutral(recipe: Recipe, num_classes: int, device: torch.device, trains: bool) -> float:
    """Time a network as `time_untrained` does."""
    with torch.random.fork_rng(devices=[]):
        method = build_method("no-treatment", num_old=num_classes)
        student = make_random_student(recipe, num_classes, device, method)
        if trains:
            return time_step(student, num_classes, device)
        network = student.model.eval()
        return _time_whole_batch(lambda batch: _teach(network, recipe, batch), recipe, num_classes, device)


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
