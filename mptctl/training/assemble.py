"""Assembles a `Run` from a request: teachers, student, loaders, and the state of a resumed run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.machine.device import move_to_device
from mptctl.machine.facts import git_commit, versions
from mptctl.methods.class_weights import compute_class_weights
from mptctl.methods.method import Method
from mptctl.methods.rows import row_of
from mptctl.methods.table import method_from_recipe
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.finished import describe_unfinished
from mptctl.models.pretrained import build_initial_model
from mptctl.models.run_folder import RunDir
from mptctl.names import Progress, Role, tell_nobody
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.other_split import check_teacher_splits
from mptctl.teachers.source import TeacherSource
from mptctl.training.bias_control import plan_bias_control, predict_decline
from mptctl.training.distributed import ProcessGroup, convert_sync_batchnorm
from mptctl.training.plan import check_request
from mptctl.training.request import RunRequest
from mptctl.training.resume import resume
from mptctl.training.run import Run, RunState, Student, make_student
from mptctl.training.validate import Validator


def assemble(
    request: RunRequest, device: torch.device, group: ProcessGroup, progress: Progress = tell_nobody
) -> Run:
    """Make everything that a run needs; to resume a run, load its last checkpoint. No picture is decoded.

    Args:
        request: the run.
        device: where the run computes.
        group: the workers of the run.
        progress: shows how many pictures are decoded when the run is opened.

    Raises:
        UsageError: the request is refused by `check_request`, a model, a loader, a budget of flips or the
            cache of logits.
        CheckpointError: a checkpoint does not fit, or the folder to resume holds another run.
    """
    recipe, num_old = request.recipe, request.split.classes.num_old
    notes = check_request(request, device, group.size)
    train, val = make_loaders(request, device, group, progress)
    total_steps = recipe.optim.total_steps(train.steps_per_epoch)
    control = plan_bias_control(
        recipe.method,
        request.val_samples[1],
        math.ceil(total_steps / train.steps_per_epoch),
        has_old_model=request.old is not None,
    )
    method = _build_method(request, device)
    models = _load_teachers(request, method, device)
    student, notes_on_weights = build_student(request, method, device, group)
    notes += notes_on_weights
    teachers: TeacherSource | None = models if method.teachers else None
    old_in_validation: TeacherSource | None = None if request.old is None else models
    cache_budget: CacheBudget | None = None
    if models is not None:
        notes += _teacher_warnings(request, models)
        if recipe.runtime.cache_teachers:
            cache_dir = request.cache_dir or request.split.run_root / "cache"
            cache_budget = CacheBudget(cache_dir / "teachers", recipe.runtime)
            if method.teachers:
                teachers = CachedTeachers(models, train, recipe, method.teachers, cache_budget)
            if old_in_validation is not None and val is not None:
                old_in_validation = CachedTeachers(models, val, recipe, [Role.OLD], cache_budget)
            notes += cache_budget.notes
    student = replace(student, teachers=teachers)
    decoder = None if request.split.manifest.is_array else train.jpeg_decoder_name()
    meta = build_meta(request, {} if models is None else models.digests, decoder)
    # A run of no steps is validated too.
    state = RunState(validation_pending=total_steps == 0)
    if request.resume:
        state = resume(request, meta, student, notes)
    elif control is not None:
        state.bias_path, notes_on_decline = predict_decline(request.refs, control.epochs)
        notes += notes_on_decline
    return Run(
        recipe=recipe,
        folder=RunDir(request.folder),
        meta=meta,
        device=device,
        group=group,
        train=train,
        validator=None
        if val is None
        else Validator(val, num_old, old_in_validation, recipe.runtime.precision),
        total_steps=total_steps,
        notes=notes,
        student=student,
        models=models,
        state=state,
        bias_control=control,
        cache_budget=cache_budget,
    )


def _build_method(request: RunRequest, device: torch.device) -> Method:
    """Build the recipe's method, with weights of classes by their numbers of training pictures."""
    recipe = request.recipe
    weights = compute_class_weights(recipe.criterion, request.class_names, request.class_counts)
    return method_from_recipe(
        recipe.method,
        request.split.classes.num_old,
        recipe.criterion,
        recipe.model.true_class_margin,
        None if weights is None else weights.to(device),
    )


def _load_teachers(request: RunRequest, method: Method, device: torch.device) -> Teachers | None:
    """Load the teachers of the method, and the old model where one is given, for flips in validation.

    Raises:
        CheckpointError: a checkpoint is damaged or does not fit the split.
    """
    if request.old is None and not request.refs:
        return None
    recipe = request.recipe
    refs = request.refs if Role.REF in method.teachers or recipe.method.init == "ref" else ()
    return Teachers(request.old, refs, request.split.classes, recipe.data, recipe.runtime, device)


def make_loaders(
    request: RunRequest, device: torch.device, group: ProcessGroup, progress: Progress = tell_nobody
) -> tuple[Loader, Loader | None]:
    """Make the loaders of training and validation part; None where no picture of its classes is held out.

    Raises:
        UsageError: the training part has no whole batch, or no loader can serve the recipe.
    """
    recipe, data = request.recipe, request.recipe.data
    if recipe.runtime.deterministic:
        # The hardware decoder rounds differently, and gets other pictures in each run.
        data = data.model_copy(update={"hw_decoder_load": 0.0})
    plan = partial(
        LoadPlan,
        request.split,
        data,
        batch_size=recipe.optim.batch_size,
        seed=recipe.runtime.seed,
        device=device,
        num_classes=request.num_classes,
    )
    train = plan("train", train=True, rank=group.rank, world_size=group.size)
    val = plan("val", train=False) if request.val_samples[0] else None
    return (
        make_loader(train, request.cache_dir, progress),
        None if val is None else make_loader(val, request.cache_dir, progress),
    )


def build_student(
    request: RunRequest, method: Method, device: torch.device, group: ProcessGroup
) -> tuple[Student, list[str]]:
    """Make the model before its first step, on the device, with optimizer and guard, but without teachers.

    Torch's random numbers are seeded with the recipe's seed. Also returned are notes on pretrained weights.

    Raises:
        UsageError: an unknown architecture, or one that does not fit the recipe.
        CheckpointError: pretrained weights that do not fit.
    """
    recipe = request.recipe
    torch.manual_seed(recipe.runtime.seed)
    teacher = {"fresh": None, "old": request.old, "ref": next(iter(request.refs), None)}[recipe.method.init]
    model, notes = build_initial_model(recipe, request.class_names, teacher)
    model = move_to_device(model, device, channels_last=recipe.runtime.channels_last)
    if recipe.runtime.sync_batchnorm and group.size > 1:
        model = convert_sync_batchnorm(model)
    wrapped = group.wrap(model, device)
    if recipe.runtime.compile:
        # torch.compile is typed as returning a function; of a module it returns a module.
        wrapped = torch.compile(wrapped)  # type: ignore[assignment]
    return make_student(recipe, model, method, wrapped=wrapped, group=group), notes


def build_meta(
    request: RunRequest, teachers: dict[str, str], jpeg_decoder: str | None = None
) -> CheckpointMeta:
    """Describe the run in the meta of its checkpoints, as before the first step.

    Args:
        request: the run.
        teachers: digest of each teacher's checkpoint, by name.
        jpeg_decoder: name of the program that decodes JPEG files; None for other sources.
    """
    return CheckpointMeta(
        recipe=request.recipe,
        class_names=request.class_names,
        num_old=request.split.classes.num_old,
        split_fingerprint=request.split.fingerprint,
        teachers=teachers,
        versions=versions(),
        git_commit=git_commit(),
        jpeg_decoder=jpeg_decoder,
    )


def _teacher_warnings(request: RunRequest, teachers: Teachers) -> list[str]:
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
    if row_of(recipe.method.name).starts_late and len(request.refs) == 1:  # ELODI and its top-K
        warnings.append(
            f"warning: {recipe.method.name} learns from an ensemble and is given one reference, "
            f"{request.refs[0]}; train several with mptctl train-ensemble, and name them with --ref ensemble"
        )
    return warnings
