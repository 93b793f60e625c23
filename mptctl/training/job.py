"""From a recipe and a split to a run: loaders, model, teachers, method, and where to go on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from mptctl.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint
from mptctl.data.loader import make_loader
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, UsageError
from mptctl.methods import method_of
from mptctl.models import build_model
from mptctl.recipe import Recipe, differences
from mptctl.teacher_cache import CachedTeachers, Role, reserve
from mptctl.teachers import Teachers, TeacherSource
from mptctl.training.distributed import Workers, workers
from mptctl.training.fit import fit
from mptctl.training.optim import build_optimizer
from mptctl.training.run import FitResult, Observer, Progress, Run
from mptctl.training.rundir import RunDir, git_commit, versions
from mptctl.training.signals import StopRequest, stop_on_signals
from mptctl.training.validate import Validation, Validator

# What may change between a run and its continuation: where and how fast it computes, not what.
MAY_CHANGE = (
    "data.loader",
    "data.workers",
    "data.prefetch",
    "data.hw_decoder_load",
    "data.resident_limit_gb",
    "runtime.device",
    "runtime.threads",
    "runtime.checkpoint_every_steps",
    "runtime.cache_limit_gb",
)


@dataclass(frozen=True)
class Job:
    """A run that somebody asked for.

    Attributes:
        recipe: what to do, complete.
        split: the data.
        folder: where the run is written.
        old: checkpoint of the old model; wanted by most methods, and used in validation where it is given.
        refs: checkpoints of the references.
        only_old_classes: train the old model, which knows the old classes alone.
        resume: go on with what is in the folder.
        overwrite: throw away what is in the folder.
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
    def num_classes(self) -> int:
        """How many classes the trained model knows."""
        return self.split.classes.num_old if self.only_old_classes else len(self.split.classes.names)


def train(job: Job, observer: Observer) -> FitResult:
    """Do a job: assemble the run, hold its folder, train.

    Raises:
        MptctlError: every kind; see `fit`, `RunDir.locked`, `Teachers`, `make_loader`.
    """
    device = choose_device(job.recipe.runtime.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(job.recipe, device))
        team = stack.enter_context(workers(device))
        folder = RunDir(job.folder)
        if team.leads:
            # What --overwrite throws away stays until everything else is known to be in order.
            stack.enter_context(folder.locked(resume=job.resume or job.overwrite, overwrite=False))
        stop = stack.enter_context(stop_on_signals())
        stack.callback(observer.closed)  # whatever it shows while pictures are decoded
        run = assemble(job, device, team, stop, observer.decoding)
        stack.callback(run.train.close)
        if run.validator is not None:
            stack.callback(run.validator.loader.close)
        if team.leads:
            if job.overwrite:
                folder.empty()
            if run.resumed_from is not None:
                folder.forget_after(run.progress.global_step)
                if run.resumed_from == folder.previous:
                    folder.replace_last_by_previous()
            folder.write_start(job.recipe.to_yaml(), job.split.file.model_dump_json(indent=2), device)
        return fit(run, observer)


def assemble(
    job: Job,
    device: torch.device,
    team: Workers,
    stop: StopRequest,
    decoding: Callable[[int, int], None] | None = None,
) -> Run:
    """Make everything that a run needs, and put it where the last checkpoint left off.

    Args:
        job: what was asked for.
        device: where it computes.
        team: who computes it.
        stop: set by a signal.
        decoding: called with (pictures decoded, pictures in all) while a part is read into memory.

    Raises:
        UsageError: a teacher that the method needs is not given.
        CheckpointError: a checkpoint does not fit, or a resumed run differs from what is asked for.
    """
    recipe, split = job.recipe, job.split
    method = method_of(recipe.method, split.classes.num_old)
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
        make_loader,
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
    notes = [loader.reason, *_twins(recipe, teachers)]
    val = load("val", train=False) if len(split.indices("val", job.num_classes)) else None
    asked: TeacherSource | None = teachers if method.needs_old or method.needs_ref else None
    judge: TeacherSource | None = teachers if job.old is not None else None
    if recipe.runtime.cache_teachers:
        folder = (job.cache_dir or split.run_root / "cache") / "teachers"
        kept: list[CachedTeachers] = []
        if asked is not None:
            needed: dict[Role, bool] = {"old": method.needs_old, "ref": method.needs_ref}
            roles = [role for role in needed if needed[role]]
            asked = CachedTeachers(asked, loader, recipe, roles, folder)
            kept.append(asked)
        if judge is not None and val is not None:
            judge = CachedTeachers(judge, val, recipe, ["old"], folder)
            kept.append(judge)
        if kept:
            notes.append(reserve(folder, recipe.runtime, kept))
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
        _resume(run)
    return run


def _twins(recipe: Recipe, teachers: Teachers | None) -> list[str]:
    """A warning for each teacher that began as this run begins: flips against it are fewer than they should be."""
    return [
        f"warning: {path}: began with this run's seed {recipe.runtime.seed}, so the two are not independent; "
        "give one of them another --seed"
        for path, meta in (teachers.metas.items() if teachers else ())
        if meta.origin == "trained"  # the seed of an imported model is not known
        and (meta.recipe.runtime.seed, meta.recipe.model.arch) == (recipe.runtime.seed, recipe.model.arch)
    ]


def choose_device(name: str) -> torch.device:
    """The device that a recipe names; ``auto`` is a GPU where there is one. Of several workers each takes its own GPU.

    Raises:
        UsageError: it is not a device, or not there.
    """
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(kind)
    except RuntimeError:
        raise UsageError(f"runtime.device {name}: unknown; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"runtime.device {name}: not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cpu":
        return device
    if device.index is None:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if device.index >= torch.cuda.device_count():
        raise UsageError(f"runtime.device {name}: {device} is not there; mptctl doctor lists what is usable")
    return device


@contextlib.contextmanager
def torch_settings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Threads and determinism of a run; what was set before comes back afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    if recipe.runtime.threads:
        torch.set_num_threads(recipe.runtime.threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = not recipe.runtime.deterministic
        if recipe.runtime.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        torch.backends.cudnn.benchmark = benchmark


def _resume(run: Run) -> None:
    checkpoint, notes = _newest(run.folder)
    _refuse_differences(checkpoint.meta, run.meta, checkpoint.path)
    state = checkpoint.training
    assert state is not None
    run.model.load_state_dict(checkpoint.model)
    run.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    if "rng_cuda" in state and run.device.type == "cuda":
        torch.cuda.set_rng_state(state["rng_cuda"], run.device)
    meta = checkpoint.meta
    run.resumed_from = checkpoint.path
    run.progress = Progress(meta.epoch, meta.step_in_epoch, meta.global_step, meta.best_error)
    figures = meta.metrics
    run.validation = Validation(
        figures.get("val_error"), figures.get("val_error_old"), figures.get("val_nfr")
    )
    lost = run.folder.logged_after(meta.global_step)
    if lost > 0:
        notes.append(f"{lost} logged steps after the checkpoint are computed again")
    run.notes.extend(notes)


def _newest(folder: RunDir) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint that can be resumed from, and what had to be passed over."""
    notes: list[str] = []
    problem: CheckpointError | None = None
    for path in (folder.last, folder.previous):
        if not path.exists():
            continue
        try:
            checkpoint = load_checkpoint(path)
        except CheckpointError as error:
            problem = error
            notes.append(f"warning: {error}")
            continue
        if checkpoint.training is None:
            problem = CheckpointError(f"{path}: holds no optimizer state; it is for use, not for --resume")
            continue
        notes.append(f"goes on from {path.name}, step {checkpoint.meta.global_step}")
        return checkpoint, notes
    if problem is not None:
        raise problem
    raise CheckpointError(
        f"{folder.path}: nothing to resume: no last.pt in it; start it without --resume, with --overwrite where "
        "an earlier run ended before its first checkpoint"
    )


def _refuse_differences(before: CheckpointMeta, now: CheckpointMeta, path: Path) -> None:
    lines = [
        line for line in differences(before.recipe, now.recipe) if line.partition(":")[0] not in MAY_CHANGE
    ]
    lines += [
        f"{key}: {_short(getattr(before, key))} -> {_short(getattr(now, key))}"
        for key in ("split_fingerprint", "class_names", "teachers")
        if getattr(before, key) != getattr(now, key)
    ]
    if lines:
        raise CheckpointError(
            f"{path}: this is another run: {'; '.join(lines)}; resume it as it was, or use another --name"
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
