"""From a recipe and a split to a run: loaders, model, teachers, method, and where to go on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.split import Split
from mptctl.errors import Stopped, UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.facts import git_commit, versions
from mptctl.machine.signals import StopRequest, stop_on_signals
from mptctl.methods.method import Method
from mptctl.methods.table import method_from_recipe
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.finished import unfinished
from mptctl.models.networks import build_model
from mptctl.models.ownership import left_alone, refuse_own_inputs
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.teachers.cache import CachedTeachers, Role
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import TeacherSource
from mptctl.training.distributed import ProcessGroup, workers
from mptctl.training.fit import fit
from mptctl.training.observer import Observer
from mptctl.training.optim import build_optimizer
from mptctl.training.result import FitResult
from mptctl.training.resume import resume
from mptctl.training.run import Progress, Run
from mptctl.training.torch_settings import torch_settings
from mptctl.training.validate import Validator


@dataclass(frozen=True)
class RunRequest:
    """A run that somebody asked for.

    Attributes:
        recipe: what to do, complete.
        split: the data.
        folder: where the run is written.
        old: checkpoint of the old model; wanted by most methods, and used in validation where it is given.
        refs: checkpoints of the references.
        only_old_classes: train the old model, which knows the old classes alone.
        resume: go on with what is in the folder.
        overwrite: throw away the run that is in the folder; what no run wrote stays.
        resume_command: what a stopped run tells the user to type.
        cache_dir: where decoded pictures are kept; None: beside the split.
    """

    recipe: Recipe
    split: Split
    folder: Path
    old: Path | None = None
    refs: tuple[Path, ...] = ()
    only_old_classes: bool = False
    resume: bool = False
    overwrite: bool = False
    resume_command: str = "the same command with --resume"
    cache_dir: Path | None = None

    @property
    def teachers(self) -> tuple[Path, ...]:
        """Checkpoints of all teachers."""
        return (*((self.old,) if self.old is not None else ()), *self.refs)

    @property
    def num_classes(self) -> int:
        """How many classes the trained model knows."""
        return self.split.classes.num_old if self.only_old_classes else len(self.split.classes.names)


def train(job: RunRequest, observer: Observer) -> FitResult:
    """Do a job: assemble the run, hold its folder, train.

    Raises:
        MptctlError: every kind; see `fit`, `RunDir.locked`, `Teachers`, `make_loader`.
        Stopped: a signal came before the first step, or asked the loop to stop.
    """
    device = choose_device(job.recipe.runtime.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(job.recipe, device))
        team = stack.enter_context(workers(device))
        folder = RunDir(job.folder)
        if team.is_main:
            refuse_own_inputs(job.folder, job.teachers)
            stack.enter_context(folder.locked(resume=job.resume, overwrite=job.overwrite))
        stop = stack.enter_context(stop_on_signals())
        stack.callback(observer.closed)  # whatever it shows while pictures are decoded
        try:
            with stop.breaks_off():
                run = assemble(job, device, team, stop, observer.decoding)
        except KeyboardInterrupt:
            raise Stopped(
                f"{job.folder}: stopped before its first step: nothing was trained and nothing was saved; "
                "start the same command again",
                stop.signum or signal.SIGINT,
            ) from None
        stack.callback(run.train.close)
        if run.validator is not None:
            stack.callback(run.validator.loader.close)
        if team.is_main:
            if job.overwrite:  # only now that everything else is known to be in order
                run.notes += left_alone(folder.empty())
            if run.resumed_from is not None:
                folder.truncate_metrics(run.progress.global_step, validated=not run.validation_pending)
                if run.resumed_from == folder.previous:
                    folder.replace_last_by_previous()
            folder.write_start(job.recipe.to_yaml(), job.split.file.model_dump_json(indent=2), device)
        return fit(run, observer)


def assemble(
    job: RunRequest,
    device: torch.device,
    team: ProcessGroup,
    stop: StopRequest,
    decoding: Callable[[int, int], None] | None = None,
    loader_of: Callable[..., Loader] = make_loader,
) -> Run:
    """Make everything that a run needs, and put it where the last checkpoint left off.

    Args:
        job: what was asked for.
        device: where it computes.
        team: who computes it.
        stop: set by a signal.
        decoding: called with (pictures decoded, pictures in all) while a part is read into memory.
        loader_of: makes its loaders, as `make_loader` does.

    Raises:
        UsageError: a teacher that the method needs is not given, or the run ends before the method begins.
        CheckpointError: a checkpoint does not fit, or a resumed run differs from what is asked for.
    """
    recipe, split = job.recipe, job.split
    method = settled_method(recipe, split, job.num_classes)
    for wanted, given, flag in ((method.needs_old, job.old, "--old"), (method.needs_ref, job.refs, "--ref")):
        if wanted and not given:
            raise UsageError(f"{method.name}: needs a teacher; name it with {flag} RUN")
    # A method that does not use the old model still reports flips against it in validation.
    teachers = None
    if job.old is not None or job.refs:
        refs = job.refs if method.needs_ref else ()
        teachers = Teachers(job.old, refs, split.classes, recipe.data, recipe.runtime, device)
    names = split.classes.names[: job.num_classes]
    meta = CheckpointMeta(
        recipe=recipe,
        class_names=names,
        num_old=split.classes.num_old,
        split_fingerprint=split.fingerprint,
        teachers=teachers.digests if teachers else {},
        versions=versions(),
        git_commit=git_commit(),
    )
    torch.manual_seed(recipe.runtime.seed)
    model = build_model(recipe.model, job.num_classes, recipe.data.image_size)
    model = model.to(device)
    if recipe.runtime.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = build_optimizer(recipe.optim, model)
    load = partial(
        loader_of,
        split,
        recipe.data,
        batch_size=recipe.optim.batch_size,
        seed=recipe.runtime.seed,
        device=device,
        num_classes=job.num_classes,
        cache_dir=job.cache_dir,
        progress=decoding,
    )
    loader = load("train", train=True, rank=team.rank, world_size=team.size)
    if loader.steps_per_epoch == 0:
        raise UsageError(
            f"optim.batch_size {recipe.optim.batch_size}: larger than the {loader.num_samples} training pictures; "
            "set a smaller one"
        )
    notes = [loader.reason, *_same_initial_weights(recipe, teachers), *_unfinished(teachers)]
    val = load("val", train=False) if len(split.indices("val", job.num_classes)) else None
    asked: TeacherSource | None = teachers if method.needs_old or method.needs_ref else None
    judge: TeacherSource | None = teachers if job.old is not None else None
    if recipe.runtime.cache_teachers:
        room = CacheBudget((job.cache_dir or split.run_root / "cache") / "teachers", recipe.runtime)
        if asked is not None:
            needed: dict[Role, bool] = {"old": method.needs_old, "ref": method.needs_ref}
            roles = [role for role in needed if needed[role]]
            asked = CachedTeachers(asked, loader, recipe, roles, room)
        if judge is not None and val is not None:
            judge = CachedTeachers(judge, val, recipe, ["old"], room)
        notes += room.notes
    reduced = recipe.runtime.precision == "bf16"
    num_old = split.classes.num_old
    validator = None if val is None else Validator(val, num_old, judge, (device.type, reduced))
    run = Run(
        recipe=recipe,
        folder=RunDir(job.folder),
        meta=meta,
        model=model,
        method=method,
        teachers=asked,
        optimizer=optimizer,
        train=loader,
        validator=validator,
        device=device,
        workers=team,
        progress=Progress(),
        stop=stop,
        resume_command=job.resume_command,
        notes=notes,
    )
    if job.resume:
        resume(run)
    return run


def settled_method(recipe: Recipe, split: Split, num_classes: int) -> Method:
    """The method of a recipe, where the recipe's run is long enough for it; nothing is computed or read.

    Args:
        recipe: of the run.
        split: the data.
        num_classes: how many classes the trained model knows.

    Raises:
        UsageError: the run ends before the method begins.
    """
    method = method_from_recipe(recipe.method, split.classes.num_old)
    pictures = len(split.indices("train", num_classes))
    method.refuse_if_never_on(recipe.optim, pictures // recipe.optim.batch_size)
    return method


def _same_initial_weights(recipe: Recipe, teachers: Teachers | None) -> list[str]:
    """A warning for each teacher that began as this run begins: flips against it are fewer than they should be."""
    return [
        f"warning: {path}: began with this run's seed {recipe.runtime.seed}, so the two are not independent; "
        "give one of them another --seed"
        for path, meta in (teachers.metas.items() if teachers else ())
        if meta.origin == "trained"  # the seed of an imported model is not known
        and (meta.recipe.runtime.seed, meta.recipe.model.arch) == (recipe.runtime.seed, recipe.model.arch)
    ]


def _unfinished(teachers: Teachers | None) -> list[str]:
    """A warning for each teacher whose run is known not to have come to its end."""
    found = [unfinished(path, meta) for path, meta in (teachers.metas.items() if teachers else ())]
    return [
        f"warning: {state.sentence}; a teacher should be: go on with its run with --resume"
        for state in found
        if state is not None and state.certain
    ]
