"""From a request to a run: teachers, student and loaders, put where the last checkpoint left off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

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
from mptctl.models.pretrained import begin_with_pretrained
from mptctl.models.run_folder import RunDir
from mptctl.models.warm_start import begin_with, refuse_other_network
from mptctl.names import Progress, Role, tell_nobody
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.other_split import judge_splits
from mptctl.teachers.source import TeacherSource
from mptctl.training.bias_control import expected_decline
from mptctl.training.distributed import ProcessGroup
from mptctl.training.lockstep_sharing import KnownAnswers, SharedLoader, SharedTeachers
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


@dataclass
class RunParts:
    """Parts that runs in lock-step share: the first run makes them and fills them in here for the others.

    Attributes:
        answers: of teachers to the batch at hand; None for a run by itself.
        teachers: as models, by the paths of the old model and of the references.
        loaders: of training and validation.
        budget: of disk space for kept answers; one for all runs, since a process claims its space as a whole.
        validator: measures a model after each epoch; keeps the old model's answers from its first pass on.
    """

    answers: KnownAnswers | None = None
    teachers: dict[tuple[Path | None, ...], Teachers] = field(default_factory=dict)
    loaders: Loaders | None = None
    budget: CacheBudget | None = None
    validator: Validator | None = None


@dataclass(frozen=True)
class RunTeachers:
    """The teachers of a run, by use.

    Attributes:
        computed: all of them, as models; None where there is none.
        method: what the method asks; None where it needs no teacher.
        validation: what validation asks, the old model; None where none is given.
        digests: role to digest of each teacher's checkpoint.
        notes: warnings about them, and choices made for them.
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
    parts: RunParts | None = None,
) -> Run:
    """Make everything that a run needs, and load the last checkpoint of one that is resumed.

    Args:
        request: the run.
        device: where it computes.
        group: the workers that compute it.
        progress: told how many pictures are decoded while a part is read into memory.
        parts: shared with the runs of its lock-step; None: it trains by itself.

    Raises:
        UsageError: see `plan_run`; or what a model, a loader or the cache refuses.
        CheckpointError: a checkpoint does not fit, or a resumed run differs from what is asked for.
    """
    parts = parts or RunParts()
    plan = plan_run(request, device, group)
    teachers = build_teachers(request, plan, device, parts)
    student = build_student(request, plan, device, group)
    if parts.loaders is None:
        parts.loaders = build_loaders(request, plan, progress, parts.answers)
    train, val = parts.loaders
    teachers = keep_answers(request, plan, teachers, train, val, parts)
    if teachers.method is not None and parts.answers is not None:
        teachers = replace(teachers, method=SharedTeachers(teachers.method, parts.answers))
    if parts.validator is None and val is not None:
        num_old, precision = request.split.classes.num_old, request.recipe.runtime.precision
        parts.validator = Validator(val, num_old, teachers.validation, precision)
    meta = build_meta(request, teachers, plan)
    folder = RunDir(request.folder)
    notes = [train.reason, *plan.notes, *student.notes, *teachers.notes]
    # A run that trains nothing is validated all the same.
    state, resumed_from = RunState(validation_pending=plan.total_steps == 0), None
    if request.resume:
        resumed_from, state, resumed_notes = resume(folder, meta, student, plan.val_samples)
        notes += resumed_notes
    elif plan.bias_control is not None:
        state.bias_path, decline_notes = expected_decline(request.refs, plan.bias_control.epochs)
        notes += decline_notes
    context = RunContext(
        recipe=request.recipe,
        folder=folder,
        meta=meta,
        device=device,
        group=group,
        train=train,
        validator=parts.validator,
        total_steps=plan.total_steps,
        notes=notes,
        bias_control=plan.bias_control,
        resumed_from=resumed_from,
        in_lockstep=parts.answers is not None,
    )
    return Run(context, replace(student, teachers=teachers.method), state)


def build_teachers(
    request: RunRequest, plan: RunPlan, device: torch.device, parts: RunParts | None = None
) -> RunTeachers:
    """Read the teachers that the method needs, and the old model where it is given.

    Raises:
        CheckpointError: a checkpoint that is damaged or does not fit the split, or is of one that divides
            otherwise.
    """
    if request.old is None and not request.refs:
        return NO_TEACHERS
    parts = parts or RunParts()
    roles = plan.method.teachers
    recipe = request.recipe
    # A method that does not use the old model still reports flips against it in validation.
    refs = request.refs if Role.REF in roles or recipe.method.init == "ref" else ()
    paths = (request.old, *refs)
    if paths not in parts.teachers:
        parts.teachers[paths] = Teachers(
            request.old, refs, request.split.classes, recipe.data, recipe.runtime, device
        )
    teachers = parts.teachers[paths]
    return RunTeachers(
        computed=teachers,
        method=teachers if roles else None,
        validation=teachers if request.old is not None else None,
        digests=teachers.digests,
        notes=_warnings(request, teachers, refs),
    )


def keep_answers(
    request: RunRequest,
    plan: RunPlan,
    teachers: RunTeachers,
    train: Loader,
    val: Loader | None,
    parts: RunParts | None = None,
) -> RunTeachers:
    """Keep the teachers' answers on disk where the recipe asks for it; the teachers that do so.

    Raises:
        UsageError: the run would keep more than ``runtime.cache_limit_gb``, or than other runs leave of it.
    """
    recipe = request.recipe
    if not recipe.runtime.cache_teachers:
        return teachers
    parts = parts or RunParts()
    if parts.budget is None:
        cache_dir = request.cache_dir or request.split.run_root / "cache"
        parts.budget = CacheBudget(cache_dir / "teachers", recipe.runtime)
    method, validation = teachers.method, teachers.validation
    if method is not None:
        method = CachedTeachers(method, train, recipe, plan.method.teachers, parts.budget)
    if validation is not None and val is not None:
        validation = CachedTeachers(validation, val, recipe, [Role.OLD], parts.budget)
    notes = [*teachers.notes, *parts.budget.notes]
    return replace(teachers, method=method, validation=validation, notes=notes)


def build_loaders(
    request: RunRequest, plan: RunPlan, progress: Progress = tell_nobody, answers: KnownAnswers | None = None
) -> Loaders:
    """Open the loaders of the training part and of the validation part.

    Args:
        request: says where decoded pictures are kept.
        plan: of the run.
        progress: told how many pictures are decoded.
        answers: of teachers to the batch at hand, for runs in lock-step, which share the training loader too;
            None for a run by itself.

    Raises:
        DataError: a picture is gone, changed or damaged.
    """
    train = make_loader(plan.train.plan, request.cache_dir, progress)
    val = None if plan.val is None else make_loader(plan.val.plan, request.cache_dir, progress)
    return Loaders(train if answers is None else SharedLoader(train, answers), val)


def build_student(request: RunRequest, plan: RunPlan, device: torch.device, group: ProcessGroup) -> Student:
    """Make the model before its first step, on the device, with optimizer and guard; its teachers are None.

    Raises:
        UsageError: an unknown architecture, or one that does not fit the recipe.
        CheckpointError: pretrained weights that do not fit.
    """
    recipe = request.recipe
    torch.manual_seed(recipe.runtime.seed)
    model, notes = _initial_model(request)
    model = place(model, device, channels_last=recipe.runtime.channels_last)
    if recipe.runtime.sync_batchnorm and group.size > 1:
        model = convert_sync_batchnorm(model, device)
    wrapped = group.wrap(model, device)
    if recipe.runtime.compile:
        # By its type a function, in fact a module.
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


def _initial_model(request: RunRequest) -> tuple[nn.Module, list[str]]:
    """The model before its first step, on the CPU, and notes on the weights that it begins with."""
    recipe = request.recipe
    names = request.split.classes.names[: request.num_classes]
    first = {"fresh": None, "old": request.old, "ref": next(iter(request.refs), None)}[recipe.method.init]
    source = None if first is None else load_checkpoint(first)
    if source is not None:
        refuse_other_network(source, recipe)
    model = build_model(recipe.model, request.num_classes, recipe.data.image_size)
    if source is not None:
        begin_with(model, source, names, recipe)
    elif recipe.model.pretrained is not None:
        return model, begin_with_pretrained(model, recipe, recipe.model.pretrained, names)
    return model, []


def build_meta(request: RunRequest, teachers: RunTeachers, plan: RunPlan | None = None) -> CheckpointMeta:
    """The meta of the run's checkpoints before its first step; without a plan it names no JPEG decoder."""
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


def _warnings(request: RunRequest, teachers: Teachers, refs: Sequence[Path]) -> list[str]:
    """Warnings on teachers: of the run's seed, of another split, unfinished, or too few."""
    recipe = request.recipe
    warnings = [
        f"warning: {path}: began with this run's seed {recipe.runtime.seed}, so the two are not independent; "
        "give one of them another --seed"
        for path, meta in teachers.metas.items()
        if recipe.method.init == "fresh"
        and meta.origin == "trained"  # the seed of an imported model is not known
        and (meta.recipe.runtime.seed, meta.recipe.model.arch) == (recipe.runtime.seed, recipe.model.arch)
    ]
    warnings += judge_splits(request.split, teachers.metas)
    for path, meta in teachers.metas.items():
        state = unfinished(path, meta)
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
