"""From a request to a run: teachers, student and loaders, put where the last checkpoint left off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.machine.device import place
from mptctl.machine.facts import git_commit, versions
from mptctl.methods.rows import ROWS
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.finished import unfinished
from mptctl.models.networks import build_model
from mptctl.models.run_folder import RunDir
from mptctl.models.warm_start import begin_with, refuse_other_network
from mptctl.names import MethodName, Progress, Role, tell_nobody
from mptctl.recipe import Recipe
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.other_split import judge_splits
from mptctl.teachers.source import TeacherSource
from mptctl.training.average import WeightAverage
from mptctl.training.bias_control import expected_decline
from mptctl.training.distributed import ProcessGroup
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.lockstep_sharing import OwnParts
from mptctl.training.optim import build_optimizer
from mptctl.training.plan import RunPlan, plan_run
from mptctl.training.request import RunRequest
from mptctl.training.resume import resume
from mptctl.training.run import Run, RunContext, RunState, Student
from mptctl.training.sync_batchnorm import convert_sync_batchnorm
from mptctl.training.validate import Validator

OWN = OwnParts()


@dataclass(frozen=True)
class RunTeachers:
    """Who answers beside the student.

    Attributes:
        computed: all of them, as models; None where there is none.
        method: asked by the method; None where it needs nobody.
        validation: the old model, asked by validation; None where none is given.
        digests: role to digest of each teacher's checkpoint.
        notes: warnings about them, and what was chosen.
    """

    computed: Teachers | None
    method: TeacherSource | None
    validation: TeacherSource | None
    digests: dict[str, str]
    notes: list[str]


NO_TEACHERS = RunTeachers(None, None, None, {}, [])


def assemble(
    request: RunRequest,
    device: torch.device,
    group: ProcessGroup,
    progress: Progress = tell_nobody,
    parts: OwnParts = OWN,
) -> Run:
    """Make everything that a run needs, and put it where the last checkpoint left off.

    Args:
        request: what was asked for.
        device: where it computes.
        group: who computes it.
        progress: told how many pictures are decoded while a part is read into memory.
        parts: where its teachers, loaders and validation come from.

    Raises:
        UsageError: see `plan_run`; or what a model, a loader or the cache refuses.
        CheckpointError: a checkpoint does not fit, or a resumed run differs from what is asked for.
    """
    plan = plan_run(request, device, group)
    teachers = build_teachers(request, plan, device, parts)
    student = build_student(request, plan, device, group)
    train, val = parts.loaders(partial(build_loaders, request, device, group, progress))
    teachers = keep_answers(request, plan, teachers, train, val, parts)
    student = replace(student, teachers=None if teachers.method is None else parts.answers(teachers.method))
    meta = build_meta(request, teachers)
    folder, notes = RunDir(request.folder), [train.reason, *teachers.notes]
    # A run that trains nothing is validated all the same.
    state, resumed_from = RunState(validation_pending=plan.total_steps == 0), None
    control = plan.bias_control
    if control is not None and not request.resume:
        state.bias_path, more = expected_decline(request.refs, control.epochs)
        notes += more
    if request.resume:
        resumed_from, state, more = resume(folder, meta, student, plan.val_samples)
        notes += more
    context = RunContext(
        recipe=request.recipe,
        folder=folder,
        meta=meta,
        device=device,
        group=group,
        train=train,
        validator=None if val is None else parts.validator(partial(_validator, request, val, teachers)),
        total_steps=plan.total_steps,
        notes=notes,
        bias_control=control,
        resumed_from=resumed_from,
        in_lockstep=parts.shared,
    )
    return Run(context, student, state)


def _validator(request: RunRequest, val: Loader, teachers: RunTeachers) -> Validator:
    precision = request.recipe.runtime.precision
    return Validator(val, request.split.classes.num_old, teachers.validation, precision)


def build_teachers(
    request: RunRequest, plan: RunPlan, device: torch.device, parts: OwnParts = OWN
) -> RunTeachers:
    """Read the teachers that the method needs, and the old model where it is given.

    Raises:
        CheckpointError: a checkpoint that is damaged or does not fit the split, or is of one that divides otherwise.
    """
    if request.old is None and not request.refs:
        return NO_TEACHERS
    roles = plan.method.teachers
    recipe = request.recipe
    # A method that does not use the old model still reports flips against it in validation.
    refs = request.refs if Role.REF in roles or recipe.method.init == "ref" else ()
    classes, data = request.split.classes, recipe.data
    build = partial(Teachers, request.old, refs, classes, data, recipe.runtime, device)
    teachers = parts.teachers((request.old, *refs), build)
    alike = _same_initial_weights(recipe, teachers) if recipe.method.init == "fresh" else []
    doubts = judge_splits(request.split, teachers.metas)
    notes = [*alike, *doubts, *_unfinished(teachers), *_lonely(recipe.method.name, refs)]
    return RunTeachers(
        computed=teachers,
        method=teachers if roles else None,
        validation=teachers if request.old is not None else None,
        digests=teachers.digests,
        notes=notes,
    )


def keep_answers(
    request: RunRequest,
    plan: RunPlan,
    teachers: RunTeachers,
    train: Loader,
    val: Loader | None,
    parts: OwnParts = OWN,
) -> RunTeachers:
    """The same teachers with their answers kept on disk, where the recipe asks for it.

    Raises:
        UsageError: the run would keep more than ``runtime.cache_limit_gb``, or than other runs leave of it.
    """
    recipe = request.recipe
    if not recipe.runtime.cache_teachers:
        return teachers
    cache_dir = request.cache_dir or request.split.run_root / "cache"
    budget = parts.budget(cache_dir / "teachers", recipe.runtime)
    method, validation = teachers.method, teachers.validation
    if method is not None:
        method = CachedTeachers(method, train, recipe, plan.method.teachers, budget)
    if validation is not None and val is not None:
        validation = CachedTeachers(validation, val, recipe, [Role.OLD], budget)
    return replace(teachers, method=method, validation=validation, notes=[*teachers.notes, *budget.notes])


def build_loaders(
    request: RunRequest,
    device: torch.device,
    group: ProcessGroup,
    progress: Progress = tell_nobody,
) -> tuple[Loader, Loader | None]:
    """Loaders of the training part and of the validation part; None where that has no picture of these classes.

    Raises:
        UsageError: the recipe's loader cannot do what is asked here, or a batch is larger than the part.
        DataError: a picture is gone, changed or damaged.
    """
    recipe, split = request.recipe, request.split
    data = recipe.data
    if recipe.runtime.deterministic:
        # The hardware decoder rounds in its own way, and which pictures it gets is not in the plan.
        data = data.model_copy(update={"hw_decoder_load": 0.0})
    load = partial(
        make_loader,
        split,
        data,
        batch_size=recipe.optim.batch_size,
        seed=recipe.runtime.seed,
        device=device,
        num_classes=request.num_classes,
        cache_dir=request.cache_dir,
        progress=progress,
    )
    train = load("train", train=True, rank=group.rank, world_size=group.size)
    val = load("val", train=False) if len(split.indices("val", request.num_classes)) else None
    return train, val


def build_student(request: RunRequest, plan: RunPlan, device: torch.device, group: ProcessGroup) -> Student:
    """The model as it begins, on the device, its optimizer and guard; without teachers as yet.

    Raises:
        UsageError: an unknown architecture, or one that does not fit the recipe.
        CheckpointError: pretrained weights that do not fit.
    """
    recipe = request.recipe
    torch.manual_seed(recipe.runtime.seed)
    model = _initial_model(request)
    model = place(model, device, channels_last=recipe.runtime.channels_last)
    if recipe.runtime.sync_batchnorm and group.size > 1:
        model = convert_sync_batchnorm(model, device)
    wrapped = group.wrap(model, device)
    if recipe.runtime.compile:
        wrapped = torch.compile(wrapped)  # type: ignore[assignment]  # a function by its type, a module in fact
    return Student(
        model=model,
        wrapped=wrapped,
        optimizer=build_optimizer(recipe.optim, model),
        method=plan.method,
        teachers=None,
        guard=NonFiniteGuard(model, device),
        accumulate=recipe.optim.accumulate,
        clip_grad_norm=recipe.optim.clip_grad_norm,
        precision=recipe.runtime.precision,
        group=group,
        average=WeightAverage(model, recipe.optim.ema) if recipe.optim.ema else None,
    )


def _initial_model(request: RunRequest) -> nn.Module:
    """The model before its first step, on the CPU."""
    recipe = request.recipe
    first = {"fresh": None, "old": request.old, "ref": next(iter(request.refs), None)}[recipe.method.init]
    if first is None:
        return build_model(recipe.model, request.num_classes, recipe.data.image_size)
    source = load_checkpoint(first)
    refuse_other_network(source, recipe)
    plain = recipe.model.model_copy(update={"pretrained": None})  # all but unknown rows comes from that model
    model = build_model(plain, request.num_classes, recipe.data.image_size)
    begin_with(model, source, request.split.classes.names[: request.num_classes], recipe)
    return model


def build_meta(request: RunRequest, teachers: RunTeachers) -> CheckpointMeta:
    """What the run's checkpoints say of themselves, before its first step."""
    classes = request.split.classes
    return CheckpointMeta(
        recipe=request.recipe,
        class_names=classes.names[: request.num_classes],
        num_old=classes.num_old,
        split_fingerprint=request.split.fingerprint,
        teachers=teachers.digests,
        versions=versions(),
        git_commit=git_commit(),
    )


def _same_initial_weights(recipe: Recipe, teachers: Teachers) -> list[str]:
    """A warning for each teacher that began as this run begins: flips against it are fewer than they should be."""
    return [
        f"warning: {path}: began with this run's seed {recipe.runtime.seed}, so the two are not independent; "
        "give one of them another --seed"
        for path, meta in teachers.metas.items()
        if meta.origin == "trained"  # the seed of an imported model is not known
        and (meta.recipe.runtime.seed, meta.recipe.model.arch) == (recipe.runtime.seed, recipe.model.arch)
    ]


def _lonely(method: MethodName, refs: Sequence[Path]) -> list[str]:
    """A warning where a method that is made for an ensemble is given one reference."""
    if not ROWS[method].starts_late or len(refs) != 1:  # those that start late are ELODI and its top-K
        return []
    return [
        f"warning: {method} learns from an ensemble and is given one reference, {refs[0]}; train several with "
        "mptctl train-ensemble, and name them with --ref ensemble"
    ]


def _unfinished(teachers: Teachers) -> list[str]:
    """A warning for each teacher whose run is known not to have come to its end."""
    found = [unfinished(path, meta) for path, meta in teachers.metas.items()]
    return [
        f"warning: {state.sentence}; a teacher should be: go on with its run with --resume"
        for state in found
        if state is not None and state.certain
    ]
