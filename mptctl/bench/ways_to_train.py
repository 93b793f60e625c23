"""Ways to take a training step on one batch: student alone, with teachers, as published, and ours."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.bench.published_loop import PublishedLoop
from mptctl.data.augmentation.mixing import Pairs
from mptctl.data.loading.mixed import Mixing, mix_labels, mix_pictures
from mptctl.data.loading.part import Batch
from mptctl.data.pictures import channels_first
from mptctl.data.plan import EpochPlan
from mptctl.errors import UsageError
from mptctl.machine.device import autocast
from mptctl.methods.method import Method
from mptctl.methods.table import method_from_recipe
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta
from mptctl.models.networks import build_model
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.teachers.cache import CACHE_TYPES, to_loop_tensor
from mptctl.teachers.cache_files import LogitFiles, round_logits
from mptctl.teachers.ensemble import Teacher
from mptctl.teachers.source import TeacherSource
from mptctl.training.estimate import random_batch
from mptctl.training.graphed import WARM_STEPS, CudaRecorder, GraphedStep, Recording
from mptctl.training.optimizer.optim import capturable, in_memory_order
from mptctl.training.run import Student, make_random_student
from mptctl.training.step import ask_teachers, train_step

# In the order of turns; `StepRow` describes each.
STEP_ROWS = (
    "student",
    "floor",
    "floor-graph",
    "published",
    "ours",
    "ours-cached",
    "ours-graph",
)
# Rows that replay a captured graph.
GRAPH_ROWS = ("floor-graph", "ours-graph")
# Takes one step.
Way = Callable[[], object]


def ways_to_train(
    recipe: Recipe, num_classes: int, device: torch.device, scratch: Path, rows: Collection[str] = STEP_ROWS
) -> tuple[dict[str, Way], dict[str, str]]:
    """Make a function for each row that takes a training step on one random batch.

    Weights never move, since the learning rate is 0. So every step computes the same numbers, and none is
    NaN. Teachers are untrained models of the student's architecture.

    Args:
        recipe: model, batch size, precision and method.
        num_classes: number of classes of student and reference; half of them are old.
        device: where the steps compute.
        scratch: folder for cached logits.
        rows: some of `STEP_ROWS`.

    Returns:
        A function for each row, and the reason for each row that was skipped.

    Raises:
        UsageError: the method has no teachers, pairs are mixed in an odd batch, or the model cannot be built.
    """
    recipe = recipe.model_copy(update={"optim": recipe.optim.model_copy(update={"lr": 0.0})})
    margin = recipe.model.true_class_margin
    method = method_from_recipe(recipe.method, num_classes // 2, recipe.criterion, margin)
    if not method.teachers:
        raise UsageError(
            f"method.name {method.name}: has no teachers, and steps with teachers are compared; "
            "use one that has, such as mpt-kl"
        )
    if recipe.data.mixes and recipe.optim.batch_size % 2:
        raise UsageError(
            f"optim.batch_size {recipe.optim.batch_size}: data.mixup and data.cutmix mix pictures in pairs; "
            "take an even number"
        )
    torch.manual_seed(0)
    batch = random_batch(recipe, recipe.optim.batch_size, num_classes, device)
    teachers = UntrainedTeachers(recipe, method, num_classes, device)

    def student(source: TeacherSource = teachers) -> Student:
        return make_random_student(recipe, num_classes, device, method, source)

    builders: dict[str, Callable[[], Way]] = {
        "student": lambda: partial(step_alone, student(), batch),
        "floor": lambda: partial(_step_with_teachers, student(), batch),
        "floor-graph": lambda: _replay_step_with_teachers(student(), batch),
        "published": lambda: PublishedLoop(recipe, method, num_classes, batch.images, batch.labels).step,
        "ours": lambda: _build_our_step(student(), batch),
        "ours-cached": lambda: _build_our_step(
            student(_CachedLogits(recipe, method, batch, teachers, scratch)), batch
        ),
        "ours-graph": lambda: _build_our_step(
            student(), batch, GraphedStep(CudaRecorder(device), teachers_inside=True)
        ),
    }
    reason = PublishedLoop.refuses(method)
    skipped = {} if reason is None else {"published": reason}
    if device.type != "cuda":
        skipped |= dict.fromkeys(GRAPH_ROWS, "a graph is captured on a GPU")
    ways = {name: builders[name]() for name in STEP_ROWS if name in rows and name not in skipped}
    return ways, {name: reason for name, reason in skipped.items() if name in rows}


def _mix(batch: Batch, pairs: Pairs | None) -> Batch:
    """Mix a copy of a batch in pairs as a loader does; without pairs, return the batch itself."""
    if pairs is None:
        return batch
    device = batch.images.device
    # `mix_pictures` works in place, and every step begins with the same batch.
    pictures = mix_pictures(batch.images.permute(0, 2, 3, 1).clone(), pairs)
    labels, mixing = mix_labels(batch.labels.cpu(), pairs)
    mixing = Mixing(mixing.others.to(device), mixing.weight.to(device))
    return replace(batch, images=channels_first(pictures), labels=labels.to(device), mixing=mixing)


def step_alone(student: Student, batch: Batch) -> None:
    """Take a step without teachers: forward, cross-entropy, backward, update."""
    with autocast(batch.images.device, student.recipe.runtime.precision):
        logits = student.model(batch.images)
    loss = nn.functional.cross_entropy(logits.float(), batch.labels)
    loss.backward()
    with in_memory_order(student.optimizer):
        student.optimizer.step()
    student.optimizer.zero_grad()


def _step_with_teachers(student: Student, batch: Batch) -> dict[str, Tensor]:
    """Compute the teachers' logits, and take a step without them."""
    ask_teachers(student, batch)
    step_alone(student, batch)
    return {}


def _replay_step_with_teachers(student: Student, batch: Batch) -> Way:
    """Make a function that replays a graph of the floor's step."""
    recorder, step = CudaRecorder(batch.images.device), partial(_step_with_teachers, student, batch)
    for _ in range(WARM_STEPS):
        recorder.warm_up(step)
    with capturable(student.optimizer):
        recording = recorder.record(step)
    # With the step, whose weights and batch the graph reads and writes but does not keep.
    return partial(_replay, recording, step)


def _replay(recording: Recording, step: Callable[[], object]) -> None:
    """Replay a recording, and keep the step, which holds what it was recorded of."""
    recording.replay()


def _build_our_step(
    student: Student,
    batch: Batch,
    take_step: Callable[[Student, Batch, float, float], dict[str, Tensor]] | None = None,
) -> Way:
    """Make a function that takes the training loop's step on a batch, with ``take_step``, or else eagerly.

    Where the recipe mixes pairs, each step mixes the batch anew, and its time includes that.
    """
    recipe = student.recipe
    pairs = EpochPlan(recipe.runtime.seed, recipe.data).pairs(0, 0, len(batch.index))

    def step() -> None:
        take = take_step or train_step
        take(student, _mix(batch, pairs), recipe.optim.lr, len(batch.labels))
        if student.guard.can_look:
            # The training loop asks after each step on a CPU, so the time to answer belongs to the step.
            student.guard.failed()

    return step


class UntrainedTeachers:
    """A `TeacherSource` of models with random weights, which take as long as trained ones."""

    def __init__(self, recipe: Recipe, method: Method, num_classes: int, device: torch.device) -> None:
        self._models: dict[Role, Teacher] = {}
        widths = {Role.OLD: method.settings.num_old, Role.REF: num_classes}
        for role in sorted(method.teachers):
            names = tuple(map(str, range(widths[role])))
            meta = CheckpointMeta(recipe=recipe, class_names=names, num_old=method.settings.num_old)
            weights = build_model(recipe.model, widths[role], recipe.data.image_size).state_dict()
            checkpoint = Checkpoint(Path(role.value), meta, weights, training=None, digest="")
            self._models[role] = Teacher(checkpoint, names, recipe.data, device, recipe.runtime, role.value)

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Compute the logits of some teachers."""
        return {role: model(batch.images) for role, model in self._models.items() if role in roles}


class _CachedLogits:
    """A `TeacherSource` that reads logits of one batch from disk, as with ``runtime.cache_teachers``.

    Args:
        recipe: gives the type of cached logits, and the number of parts of a batch.
        method: its teachers are cached.
        batch: the only batch that can be asked for.
        teachers: compute the logits, once, here.
        scratch: folder for the files.
    """

    def __init__(
        self, recipe: Recipe, method: Method, batch: Batch, teachers: TeacherSource, scratch: Path
    ) -> None:
        dtype = CACHE_TYPES[recipe.runtime.cache_precision]
        self._files: dict[Role, LogitFiles] = {}
        for role, logits in teachers.logits(batch, method.teachers).items():
            rows = round_logits(logits.cpu().numpy(), dtype)
            key = {"role": role.value, "computed as": recipe.runtime.teacher_precision}
            files = self._files[role] = LogitFiles(scratch, key, len(rows), rows.shape[1], dtype)
            start = 0
            for index in batch.index.tensor_split(recipe.optim.accumulate):
                files.write(0, start, index.numpy(), rows[start : start + len(index)])
                start += len(index)

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Read the logits of some teachers for the batch, or a part of it.

        Damaged logits are left out; the method then fails for lack of them.
        """
        where = (batch.epoch, batch.position, batch.index.numpy())
        rows = {role: self._files[role].read(*where) for role in self._files if role in roles}
        return {role: to_loop_tensor(cached, batch) for role, cached in rows.items() if cached is not None}
