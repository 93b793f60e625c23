"""What a run will take: its time from a few steps on random tensors, its disk from the sizes of its weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache

import torch
from pydantic import Field
from torch import Tensor, nn

from mptctl.data.loading.batch import Batch
from mptctl.files import Model
from mptctl.machine.device import autocast, place
from mptctl.methods.table import build_method
from mptctl.models.networks import build_model, set_training_mode
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.optim import build_optimizer
from mptctl.training.run import Student
from mptctl.training.step import train_step

# Pictures of the first step that is timed; where it is short, more pictures make the figure a better one.
FEW_PICTURES = 8
# Seconds: a call that takes longer is not timed with more pictures, nor again.
LONG_CALL = 0.5
# Calls that are timed after the first, which is slower than the others.
TIMED_CALLS = 3
# Keys that are about other things than how fast a step is; models that differ in them alone are timed once.
NOT_TIMED = {
    "runtime.seed": 0, "optim.lr": 0.1, "optim.epochs": 1, "optim.max_steps": None, "method.name": "no-treatment",
    "model.pretrained": None,
}  # fmt: skip
# Numbers that the optimizer keeps for each weight.
OPTIMIZER_STATE = {"sgd": 1, "adamw": 2, "adam": 2}

# A model that is to be timed: its recipe, and how many classes it answers for.
Sized = tuple[Recipe, int]


class Estimate(Model):
    """What a run will take, where nothing else computes; reading pictures is not part of it."""

    step_seconds: float = Field(description="of an optimizer step, teachers included")
    seconds: float = Field(description="to the end of the run, validation included")
    teacher_seconds: float = Field(
        0.0, description="of these, the teachers' answers, which runs in lock-step ask for once"
    )
    memory_mb: float = Field(
        0.0,
        description="of a training step, from sizes, in megabytes: weights, gradients, optimizer, what the backward "
        "pass needs, teachers; not pictures that are kept in memory",
    )
    student_mb: float = Field(
        0.0,
        description="of that, weights, gradients and optimizer, which each run in lock-step has of its own",
    )
    disk_mb: float = Field(description="of the run folder, in megabytes, where nothing is written yet")


def estimate_run(
    student: Sized, teachers: Sequence[Sized], *, steps: int, validated: int, device: torch.device
) -> Estimate:
    """Time a training step of the student and a forward pass of each teacher; no picture and no weight is read.

    Teachers whose answers are kept on disk are counted as if they answered anew in each step.

    Args:
        student, teachers: recipe of each model, and its classes.
        steps: optimizer steps that are left.
        validated: pictures that all validations of the run look at together.
        device: where it computes.
    """
    recipe, classes = student
    batch_size = recipe.optim.batch_size
    per_weight = OPTIMIZER_STATE[recipe.optim.name]
    asked = batch_size * sum(answer_seconds(*teacher, device) for teacher in teachers)
    step = step_seconds(recipe, classes, device) + asked
    validation = answer_seconds(recipe, classes, device) * validated
    return Estimate(
        step_seconds=round(step, 6),
        seconds=round(step * steps + validation, 3),
        teacher_seconds=round(asked * steps, 3),
        memory_mb=round(step_bytes(recipe, classes, teachers, per_weight) / 1e6, 1),
        student_mb=round(student_bytes(recipe, classes, per_weight) / 1e6, 1),
        disk_mb=round(run_bytes(recipe, classes) / 1e6, 1),
    )


def run_bytes(recipe: Recipe, num_classes: int) -> int:
    """Bytes of a run folder at its largest: best.pt, last.pt, previous.pt, and the next last.pt while it is written."""
    return _bytes_by_text(_timed(recipe, num_classes)[0].model_dump_json(), num_classes)


@cache
def _bytes_by_text(text: str, num_classes: int) -> int:
    recipe = Recipe.model_validate_json(text)
    with torch.device("meta"):
        model = build_model(recipe.model, num_classes, recipe.data.image_size)
    weights: int = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    trained: int = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return weights + 3 * (weights + OPTIMIZER_STATE[recipe.optim.name] * trained)


def _timed(recipe: Recipe, num_classes: int) -> Sized:
    return change_recipe(recipe, NOT_TIMED, "estimate"), num_classes


def _model(recipe: Recipe, num_classes: int, device: torch.device) -> nn.Module:
    model = build_model(recipe.model, num_classes, recipe.data.image_size)
    return place(model, device, channels_last=recipe.runtime.channels_last)


def _pictures(recipe: Recipe, count: int, device: torch.device) -> torch.Tensor:
    pictures = torch.randn(count, 3, recipe.data.image_size, recipe.data.image_size, device=device)
    last = recipe.runtime.channels_last
    return pictures.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def step_seconds(recipe: Recipe, num_classes: int, device: torch.device) -> float:
    """Seconds of a training step on random pictures, without teachers; timed once for models that are alike."""
    timed, classes = _timed(recipe, num_classes)
    return _by_text(timed.model_dump_json(), classes, device, True)


def answer_seconds(recipe: Recipe, num_classes: int, device: torch.device) -> float:
    """Seconds of a forward pass as a teacher does it, a picture; timed once for models that are alike."""
    timed, classes = _timed(recipe, num_classes)
    return _by_text(timed.model_dump_json(), classes, device, False) / recipe.optim.batch_size


@cache
def _by_text(text: str, num_classes: int, device: torch.device, trains: bool) -> float:
    recipe = Recipe.model_validate_json(text)
    calls = _training_steps if trains else _answers
    with torch.random.fork_rng(devices=[]):
        return _time(calls(recipe, num_classes, device), recipe.optim.batch_size, device)


# Makes, for a number of pictures, a call that is to be timed.
_Calls = Callable[[int], Callable[[], object]]


def _training_steps(recipe: Recipe, num_classes: int, device: torch.device) -> _Calls:
    model = _model(recipe, num_classes, device)
    set_training_mode(model, recipe.model)
    student = Student(
        model=model,
        wrapped=model,
        optimizer=build_optimizer(recipe.optim, model),
        method=build_method("no-treatment", num_old=num_classes),
        teachers=None,
        guard=NonFiniteGuard(model, device),
        precision=recipe.runtime.precision,
    )

    def steps(count: int) -> Callable[[], object]:
        labels = torch.arange(count, device=device) % num_classes
        batch = Batch(_pictures(recipe, count, device), labels, torch.arange(count))
        return lambda: train_step(student, batch, recipe.optim.lr, count)

    return steps


def _answers(recipe: Recipe, num_classes: int, device: torch.device) -> _Calls:
    model = _model(recipe, num_classes, device).eval()

    def answers(count: int) -> Callable[[], object]:
        pictures = _pictures(recipe, count, device)

        @torch.no_grad()
        def answer() -> object:
            with autocast(device, recipe.runtime.teacher_precision):
                return model(pictures)

        return answer

    return answers


def _time(calls: _Calls, whole: int, device: torch.device) -> float:
    """Seconds of a call with a whole batch.

    Where that is long, from the two largest parts of a batch that are not: a part that is the same for any number of
    pictures, such as moving the weights, and a part a picture.
    """
    few, count = 2, min(whole, FEW_PICTURES)
    calls(few)()  # what is made at the first call
    before, seconds = _seconds(calls(few), device), _seconds(calls(count), device)
    while seconds < LONG_CALL and count < whole:
        few, before, count = count, seconds, min(whole, 2 * count)
        seconds = _seconds(calls(count), device)
    if seconds < LONG_CALL:
        call = calls(count)
        return min(_seconds(call, device) for _ in range(TIMED_CALLS))
    a_picture = (seconds - before) / (count - few) if seconds > before and count > few else seconds / count
    return seconds + (whole - count) * a_picture


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    # On one thread of a CPU its own time, which what else computes there does not change.
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begin


def step_bytes(
    recipe: Recipe, num_classes: int, teachers: Sequence[tuple[Recipe, int]], per_weight: int
) -> int:
    """Bytes of weights, gradients, the optimizer's state, what the backward pass needs, and the teachers' weights.

    Autocast to bfloat16 takes less for the backward pass; pictures in memory are counted by their loader.

    Args:
        recipe: of the model that is trained.
        num_classes: that it answers.
        teachers: recipe and classes of each.
        per_weight: numbers that the optimizer keeps for each trained weight.
    """
    model = _outline(recipe, num_classes)
    set_training_mode(model, recipe.model)
    weights = sum(_size(_outline(*teacher)) for teacher in teachers)
    return student_bytes(recipe, num_classes, per_weight) + _kept_bytes(model, recipe) + weights


def student_bytes(recipe: Recipe, num_classes: int, per_weight: int) -> int:
    """Bytes of weights, gradients and the optimizer's state: what a run keeps while another has its turn.

    Args:
        recipe, num_classes, per_weight: as `step_bytes`.
    """
    model = _outline(recipe, num_classes)
    set_training_mode(model, recipe.model)
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return _size(model) + trained * (1 + per_weight)


def _outline(recipe: Recipe, num_classes: int) -> nn.Module:
    with torch.device("meta"):
        return build_model(recipe.model, num_classes, recipe.data.image_size)


def _size(model: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


def _kept_bytes(model: nn.Module, recipe: Recipe) -> int:
    """What a forward pass on a whole batch keeps for the backward pass, without the weights."""
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, tuple[Tensor, int]] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            # The tensor is held, so that no other gets its place.
            kept[storage._cdata] = tensor, storage.nbytes()
        return tensor

    side = recipe.data.image_size
    images = torch.empty(recipe.optim.batch_size, 3, side, side, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(images)
    return sum(size for _, size in kept.values())
