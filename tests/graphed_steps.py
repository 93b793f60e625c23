"""Twenty training steps with a rate, a k and batches that change, as tests take them eagerly and from a recording."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mptctl.bench.ways_to_train import UntrainedTeachers
from mptctl.data.loading.mixed import Mixing
from mptctl.data.loading.part import Batch
from mptctl.methods.table import method_from_recipe
from mptctl.recipe import Recipe
from mptctl.training.optimizer.optim import keep_rates_on, restore_optimizer
from mptctl.training.run import Student, make_random_student
from mptctl.training.step import train_step

STEPS = 20
ALL = range(STEPS)
CLASSES = 10
# Number of the step whose batch is half as large, as the last of an epoch may be.
SMALL = 13
TakeStep = Callable[[Student, Batch, float, float], dict[str, Tensor]]


def make_student(recipe: Recipe, device: torch.device) -> Student:
    """A student with untrained teachers; on a CPU it does what it would do on a GPU, where no step looks at numbers."""
    torch.manual_seed(recipe.runtime.seed)
    method = method_from_recipe(recipe.method, CLASSES // 2, recipe.criterion)
    teachers = UntrainedTeachers(recipe, method, CLASSES, device) if method.teachers else None
    student = make_random_student(recipe, CLASSES, device, method, teachers)
    if device.type == "cpu":
        keep_rates_on(device, student.optimizer)
        student.guard.can_look = False
    return student


def make_batches(recipe: Recipe, device: torch.device, bad: int | None = None) -> list[Batch]:
    """Random batches for STEPS steps, the one of SMALL smaller, and that of ``bad`` with a NaN in its pictures."""
    torch.manual_seed(7)
    size, batches = recipe.data.image_size, []
    for step in range(STEPS):
        count = recipe.optim.batch_size // (2 if step == SMALL else 1)
        images, labels = torch.randn(count, 3, size, size), torch.randint(0, CLASSES, (count,))
        if step == bad:
            images[0, 0, 0, 0] = float("nan")
        images = images.to(device).contiguous(memory_format=torch.channels_last)
        mixing = None
        if recipe.data.mixes:
            mixing = Mixing(((labels + 1) % CLASSES).to(device), torch.rand(count).to(device))
        batches.append(Batch(images, labels.to(device), torch.arange(count), mixing=mixing))
    return batches


def rate(recipe: Recipe, step: int) -> float:
    """A cosine, so that no two steps have the same rate."""
    return recipe.optim.lr * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))


def take_steps(
    student: Student, recipe: Recipe, batches: Sequence[Batch], steps: range, take_step: TakeStep
) -> list[dict[str, Tensor]]:
    """Take some of the steps, in epochs of eight; the terms of each."""
    terms = []
    for step in steps:
        learner = replace(student, method=student.method.for_epoch(step // 8, 3))
        taken = take_step(learner, batches[step], rate(recipe, step), recipe.optim.batch_size)
        terms.append({name: term.clone() for name, term in taken.items()})
    return terms


def revive(student: Student, recipe: Recipe, device: torch.device) -> Student:
    """Another student, that begins with what a checkpoint of this one holds."""
    average = student.average
    held = {"model": student.model.state_dict(), "optimizer": student.optimizer.state_dict()}
    held |= {"average": average.state()} if average is not None else {}
    file = io.BytesIO()
    torch.save(held, file)
    file.seek(0)
    read = torch.load(file, map_location="cpu", weights_only=True)
    other = make_student(recipe, device)
    other.model.load_state_dict(read["model"])
    restore_optimizer(other.optimizer, read["optimizer"])
    if other.average is not None:
        other.average.restore(read["average"])
    return other


def check_eager_bits(recipe: Recipe, device: torch.device, step: TakeStep) -> None:
    """Twenty steps leave the bits of twenty eager ones, and have their terms."""
    batches = make_batches(recipe, device)
    eager, student = make_student(recipe, device), make_student(recipe, device)
    wanted = take_steps(eager, recipe, batches, ALL, train_step)
    found = take_steps(student, recipe, batches, ALL, step)
    assert unequal(student, eager) == []
    assert found == wanted


def check_bits_after_checkpoint(
    recipe: Recipe, device: torch.device, first: TakeStep, second: TakeStep
) -> None:
    """Nine steps by the one and, from a checkpoint on, the rest by the other leave the bits of twenty eager ones."""
    batches = make_batches(recipe, device)
    eager, student = make_student(recipe, device), make_student(recipe, device)
    take_steps(eager, recipe, batches, ALL, train_step)
    take_steps(student, recipe, batches, range(9), first)
    student = revive(student, recipe, device)
    take_steps(student, recipe, batches, range(9, STEPS), second)
    assert unequal(student, eager) == []


def check_no_weight_moves(recipe: Recipe, device: torch.device, step: TakeStep) -> None:
    """From a step on that is not finite no weight moves, eagerly or by these steps, and both say the same of it."""
    batches = make_batches(recipe, device, bad=9)
    students = make_student(recipe, device), make_student(recipe, device)
    steps: tuple[TakeStep, TakeStep] = train_step, step
    for student, take in zip(students, steps, strict=True):
        take_steps(student, recipe, batches, range(9), take)
        before = [p.detach().clone() for p in student.model.parameters()]
        take_steps(student, recipe, batches, range(9, STEPS), take)
        assert all(torch.equal(p, q) for p, q in zip(student.model.parameters(), before, strict=True))
    eager, replayed = (student.guard.failed() for student in students)
    assert replayed is not None
    assert (replayed.step, str(replayed)) == (9, str(eager))
    for student in students:
        student.guard.restore()
    assert unequal(*students) == []


def unequal(one: Student, other: Student) -> list[str]:
    """Names of weights, optimizer state and averages that differ in a bit, with the largest difference."""
    pairs = list(zip(_held(one).items(), _held(other).values(), strict=True))
    return [
        f"{name}: {(a.double() - b.double()).abs().max().item():.2g}"
        for (name, a), b in pairs
        if not torch.equal(a.nan_to_num(7.5), b.nan_to_num(7.5))
    ]


def _held(student: Student) -> dict[str, Tensor]:
    held = dict(student.model.state_dict())
    for number, state in student.optimizer.state_dict()["state"].items():
        held |= {f"{number} {name}": value for name, value in state.items() if isinstance(value, Tensor)}
    if student.average is not None:
        held |= {f"average {name}": value for name, value in student.average.state().items()}
    return held
