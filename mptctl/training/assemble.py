"""Assembles a `Run` from a request: teachers, student, loaders, and the state of a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.machine.device import move_to_device
from mptctl.machine.facts import git_commit, versions
from mptctl.methods.rows import ROWS
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.finished import describe_unfinished
from mptctl.models.networks import build_model
from mptctl.models.pretrained import load_pretrained
from mptctl.models.run_folder import RunDir
from mptctl.models.warm_start import copy_weights, refuse_other_network
from mptctl.names import Progress, Role, tell_nobody
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.other_split import check_teacher_splits
from mptctl.teachers.source import TeacherSource
from mptctl.training.bias_control import predict_decline
from mptctl.training.distributed import ProcessGroup
from mptctl.training.optimizer.average import WeightAverage
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.optimizer.optim import build_optimizer
from mptctl.training.plan import RunPlan, plan_run
from mptctl.training.request import RunRequest
from mptctl.training.resume import resume
from mptctl.training.run import Run, RunContext, RunState, Student
from mptctl.training.sync_batchnorm import convert_sync_batchnorm
from mptctl.training.validate import Validator


class Loaders(NamedTuple):
    """The loaders of a run.

    Attributes:
        train: of the training part.
        val: of the validation part; None where that has no picture of the run's classes.
    """

    train: Loader
    val: Loader | None


@dataclass(frozen=True)
class RunTeachers:
    """The teachers of a run, by use.

    Attributes:
        computed: all teachers, as loaded models; None where none is given.
        method: gives the method's logits; None where the method needs no teacher.
        validation: gives the old model's logits in validation; None without an old model.
        digests: digest of each teacher's checkpoint, by name.
        notes: warnings on the teachers, and what was chosen for them.
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
) -> Run:
    """Make everything that a run needs; to resume a run, load its last checkpoint.

    Args:
        request: the run.
        device: where the run computes.
        group: the workers of the run.
        progress: told how many pictures are decoded while a part is read into memory.

    Raises:
        UsageError: the plan, a model, a loader or the cache of logits refuses the request.
        CheckpointError: a checkpoint does not fit, or the folder to resume holds another run.
        DataError: a picture is gone, changed or damaged.
    """
    plan = plan_run(request, device, group)
    teachers = build_teachers(request, plan, device)
    student = build_student(request, plan, device, group)
    train, val = build_loaders(request, plan, progress)
    teachers = cache_logits(request, plan, teachers, train, val)
    num_old, precision = request.split.classes.num_old, request.recipe.runtime.precision
    validator = None if val is None else Validator(val, num_old, teachers.validation, precision)
    meta = build_meta(request, teachers, plan)
    folder = RunDir(request.folder)
    notes = [train.reason, *plan.notes, *student.notes, *teachers.notes]
    # A run of no steps is validated too.
    state, resumed_from = RunState(validation_pending=plan.total_steps == 0), None
    if request.resume:
        resumed_from, state, resumed_notes = resume(
            folder, meta, student, plan.val_samples, request.split.file
        )
        notes += resumed_notes
    elif plan.bias_control is not None:
        state.bias_path, decline_notes = predict_decline(request.refs, plan.bias_control.epochs)
        notes += decline_notes
    context = RunContext(
        recipe=request.recipe,
        folder=folder,
        meta=meta,
        device=device,
        group=group,
        train=train,
        validator=validator,
        total_steps=plan.total_steps,
        notes=notes,
        bias_control=plan.bias_control,
        resumed_from=resumed_from,
    )
    return Run(context, replace(student, teachers=teachers.method), state)


def build_teachers(request: RunRequest, plan: RunPlan, device: torch.device) -> RunTeachers:
    """Load the teachers of the method, and the old model where one is given, for flips in validation.

    Raises:
        CheckpointError: a checkpoint is damaged, does not fit the split, or comes from a split with other
            parts.
    """
    if request.old is None and not request.refs:
        return NO_TEACHERS
    roles = plan.method.teachers
    recipe = request.recipe
    refs = request.refs if Role.REF in roles or recipe.method.init == "ref" else ()
    teachers = Teachers(request.old, refs, request.split.classes, recipe.data, recipe.runtime, device)
    return RunTeachers(
        computed=teachers,
        method=teachers if roles else None,
        validation=teachers if request.old is not None else None,
        digests=teachers.digests,
        notes=_teacher_warnings(request, teachers, refs),
    )


def cache_logits(
    request: RunRequest,
    plan: RunPlan,
    teachers: RunTeachers,
    train: Loader,
    val: Loader | None,
) -> RunTeachers:
    """Return the teachers with a cache of their logits on disk; unchanged without ``runtime.cache_teachers``.

    Raises:
        UsageError: the caches need more than ``runtime.cache_limit_gb``, or more than other runs leave of it.
    """
    recipe = request.recipe
    if not recipe.runtime.cache_teachers:
        return teachers
    cache_dir = request.cache_dir or request.split.run_root / "cache"
    budget = CacheBudget(cache_dir / "teachers", recipe.runtime)
    method, validation = teachers.method, teachers.validation
    if method is not None:
        method = CachedTeachers(method, train, recipe, plan.method.teachers, budget)
    if validation is not None and val is not None:
        validation = CachedTeachers(validation, val, recipe, [Role.OLD], budget)
    notes = [*teachers.notes, *budget.notes]
    return replace(teachers, method=method, validation=validation, notes=notes)


def build_loaders(request: RunRequest, plan: RunPlan, progress: Progress = tell_nobody) -> Loaders:
    """Open the loaders of training and validation part; those with pictures in memory decode these now.

    Args:
        request: gives the folder of decoded pictures.
        plan: of the run.
        progress: told how many pictures are decoded.

    Raises:
        DataError: a picture is gone, changed or damaged.
    """
    train = make_loader(plan.train.plan, request.cache_dir, progress)
    val = None if plan.val is None else make_loader(plan.val.plan, request.cache_dir, progress)
    return Loaders(train, val)


def build_student(request: RunRequest, plan: RunPlan, device: torch.device, group: ProcessGroup) -> Student:
    """Make the model before its first step, on the device, with optimizer and guard, but without teachers.

    Torch's random numbers are seeded with the recipe's seed.

    Raises:
        UsageError: an unknown architecture, or one that does not fit the recipe.
        CheckpointError: pretrained weights that do not fit.
    """
    recipe = request.recipe
    torch.manual_seed(recipe.runtime.seed)
    model, notes = _build_initial_model(request)
    model = move_to_device(model, device, channels_last=recipe.runtime.channels_last)
    if recipe.runtime.sync_batchnorm and group.size > 1:
        model = convert_sync_batchnorm(model)
    wrapped = group.wrap(model, device)
    if recipe.runtime.compile:
        # torch.compile is typed as returning a function; of a module it returns a module.
        wrapped = torch.compile(wrapped)  # type: ignore[assignment]
    return Student(
        model=model,
        wrapped=wrapped,
        optimizer=build_optimizer(recipe.optim, model, recipe.model.arch),
        method=plan.method,
        teachers=None,
        guard=NonFiniteGuard(model, device),
        accumulate=recipe.optim.accumulate,
        clip_grad_norm=recipe.optim.clip_grad_norm,
        precision=recipe.runtime.precision,
        group=group,
        average=WeightAverage(model, recipe.optim.ema) if recipe.optim.ema else None,
        notes=tuple(notes),
    )


def _build_initial_model(request: RunRequest) -> tuple[nn.Module, list[str]]:
    """Build the model before its first step, on the CPU, and return it with notes on its pretrained weights.

    The weights are those of a teacher (``method.init``), pretrained ones (``model.pretrained``), or random.

    Raises:
        UsageError: an unknown architecture, or another one than the teacher's.
        CheckpointError: weights that do not fit.
    """
    recipe = request.recipe
    names = request.split.classes.names[: request.num_classes]
    first_ref = next(iter(request.refs), None)
    source_path = {"fresh": None, "old": request.old, "ref": first_ref}[recipe.method.init]
    source = None if source_path is None else load_checkpoint(source_path)
    if source is not None:
        refuse_other_network(source, recipe)
    model = build_model(recipe.model, request.num_classes, recipe.data.image_size)
    if source is not None:
        copy_weights(model, source, names, recipe)
    elif recipe.model.pretrained is not None:
        return model, load_pretrained(model, recipe, recipe.model.pretrained, names)
    return model, []


def build_meta(request: RunRequest, teachers: RunTeachers, plan: RunPlan | None = None) -> CheckpointMeta:
    """Describe the run in the meta of its checkpoints, as before the first step.

    Without a plan the meta names no JPEG decoder.
    """
    classes = request.split.classes
    return CheckpointMeta(
        recipe=request.recipe,
        class_names=classes.names[: request.num_classes],
        num_old=classes.num_old,
        split_fingerprint=request.split.fingerprint,
        teachers=teachers.digests,
        versions=versions(),
        git_commit=git_commit(),
        jpeg_decoder=None if plan is None else plan.train.decoder,
    )


def _teacher_warnings(request: RunRequest, teachers: Teachers, refs: Sequence[Path]) -> list[str]:
    """Warn of teachers with the run's own seed, from another split, from an unfinished run, or too few."""
    recipe = request.recipe
    warnings = [
        f"warning: {path}: began with this run's seed {recipe.runtime.seed}, so the two are not independent; "
        "give one of them another --seed"
        for path, meta in teachers.metas.items()
        if recipe.method.init == "fresh"
        and meta.origin == "trained"  # the seed of an imported model is not known
        and (meta.recipe.runtime.seed, meta.recipe.model.arch) == (recipe.runtime.seed, recipe.model.arch)
    ]
    warnings += check_teacher_splits(request.split, teachers.metas)
    for path, meta in teachers.metas.items():
        state = describe_unfinished(path, meta)
        if state is not None and state.certain:
            warnings.append(
                f"warning: {state.sentence}; a teacher should be: go on with its run with --resume"
            )
    if ROWS[recipe.method.name].starts_late and len(refs) == 1:  # ELODI and its top-K
        warnings.append(
            f"warning: {recipe.method.name} learns from an ensemble and is given one reference, {refs[0]}; "
            "train several with mptctl train-ensemble, and name them with --ref ensemble"
        )
    return warnings
