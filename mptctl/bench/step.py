"""Speed of the training step on pictures that are already there: the student alone, a plain loop, and ours."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mpt_kernels import backend_for
from mptctl.data.loading.batch import Batch
from mptctl.files import Model
from mptctl.machine.device import autocast, place
from mptctl.machine.facts import Machine, this_machine
from mptctl.methods.method import Method
from mptctl.methods.table import method_from_recipe
from mptctl.models.networks import build_model
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.recipe.head import true_class_margin
from mptctl.teachers.source import TeacherSource
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.optim import build_optimizer
from mptctl.training.run import Student
from mptctl.training.step import train_step

_WARM_STEPS = 3


class StepRow(Model):
    """One way to train."""

    name: str = Field(description="student: forward, cross-entropy, backward, update; plain: with teachers, the loss "
                      "by autograd and one look at it a step; ours: the training loop's own step")  # fmt: skip
    images_per_s: float = Field(description="median over the repeats")
    slowest: float = Field(description="images/s of the slowest repeat")
    fastest: float = Field(description="images/s of the fastest repeat")
    ms: float = Field(description="milliseconds a step, at the median")


class StepBench(Model):
    """What `mptctl bench step --json` prints."""

    bench: Literal["step"] = "step"
    machine: Machine = Field(description="where it was measured")
    method: str = Field(description="whose teachers and loss")
    arch: str = Field(description="of student and teachers")
    image_size: int = Field(description="pixels")
    batch_size: int = Field(description="pictures a step")
    num_classes: int = Field(description="of student and reference; half of them are old")
    loss_backend: str = Field(description="reference or triton")
    rows: list[StepRow] = Field(description="one for each way to train")


def bench_step(
    recipe: Recipe, *, num_classes: int, steps: int, repeats: int, device: torch.device
) -> StepBench:
    """Time three ways to train on one fixed batch, in turns.

    Args:
        recipe: model, batch, precision and method; its teachers are untrained models of the same architecture.
        num_classes: of student and reference.
        steps: optimizer steps of one repeat.
        repeats: turns of each way.
        device: where it computes.
    """
    ways = ways_to_train(recipe, num_classes, device)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    batch_size = recipe.optim.batch_size
    for way in ways.values():
        _time(way, _WARM_STEPS, device)
    for _ in range(repeats):
        for name, way in ways.items():
            speeds[name].append(steps * batch_size / _time(way, steps, device))
    return StepBench(
        machine=this_machine(),
        method=recipe.method.name,
        arch=recipe.model.arch,
        image_size=recipe.data.image_size,
        batch_size=batch_size,
        num_classes=num_classes,
        loss_backend=backend_for(torch.empty(1, num_classes, device=device)),
        rows=[
            StepRow(
                name=name,
                images_per_s=round(statistics.median(values), 1),
                slowest=round(min(values), 1),
                fastest=round(max(values), 1),
                ms=round(1e3 * batch_size / statistics.median(values), 3),
            )
            for name, values in speeds.items()
        ],
    )


class _Untrained:
    """Teachers with fresh weights: they cost what trained ones cost."""

    def __init__(self, old: nn.Module, ref: nn.Module) -> None:
        self.digests: dict[str, str] = {}
        self._models = {Role.OLD: old, Role.REF: ref}

    @torch.no_grad()
    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        return {role: self._models[role](batch.images) for role in roles}

    def open(self) -> None:
        pass


def ways_to_train(recipe: Recipe, num_classes: int, device: torch.device) -> dict[str, Callable[[], None]]:
    """A function for each way of `StepRow`; each call is one step on the same batch. Arguments as in `bench_step`."""
    num_old = num_classes // 2
    method = method_from_recipe(recipe.method, num_old, recipe.criterion, true_class_margin(recipe.model))

    def model(classes: int) -> nn.Module:
        made = build_model(recipe.model, classes, recipe.data.image_size)
        return place(made, device, channels_last=recipe.runtime.channels_last)

    torch.manual_seed(0)
    teachers = _Untrained(model(num_old).eval(), model(num_classes).eval())
    student = model(num_classes).train()
    optimizer = build_optimizer(recipe.optim, student)
    size, count = recipe.data.image_size, recipe.optim.batch_size
    images = torch.randn(count, 3, size, size, device=device)
    if recipe.runtime.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, num_classes, (count,), device=device)
    batch = Batch(images, labels, torch.arange(count))

    def forward() -> Tensor:
        with autocast(device, recipe.runtime.precision):
            logits: Tensor = student(images)
        return logits

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    def alone() -> None:
        nn.functional.cross_entropy(forward().float(), labels).backward()  # type: ignore[no-untyped-call]
        update()

    def plain() -> None:
        answers = teachers.logits(batch, method.teachers)
        loss = method(forward().float(), labels, answers.get(Role.OLD), answers.get(Role.REF))["loss"]
        loss.backward()  # type: ignore[no-untyped-call]
        update()
        loss.item()  # what a loop does that prints its loss

    ours = _our_step(recipe, student, optimizer, method, teachers, batch, device)
    return {"student": alone, "plain": plain, "ours": ours}


def _our_step(
    recipe: Recipe,
    student: nn.Module,
    optimizer: torch.optim.Optimizer,
    method: Method,
    teachers: TeacherSource,
    batch: Batch,
    device: torch.device,
) -> Callable[[], None]:
    """The training loop's own step on one batch; the only place that knows what it asks for."""
    learner = Student(
        model=student,
        wrapped=student,
        optimizer=optimizer,
        method=method,
        teachers=teachers,
        guard=NonFiniteGuard(student, device),
        accumulate=recipe.optim.accumulate,
        clip_grad_norm=recipe.optim.clip_grad_norm,
        precision=recipe.runtime.precision,
    )

    def step() -> None:
        train_step(learner, batch, recipe.optim.lr, len(batch.labels))

    return step


def _time(way: Callable[[], None], steps: int, device: torch.device) -> float:
    """Seconds for so many steps, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    for _ in range(steps):
        way()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin
