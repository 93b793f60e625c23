"""Resumes a run bitwise from its last checkpoint, and refuses a request for a different run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from mptctl.data.split_file import SplitFile, parse_split_file
from mptctl.errors import CheckpointError, DataError, UsageError
from mptctl.methods.rows import nfr_budget
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint
from mptctl.models.metrics_log import read_metrics, steps_logged_after
from mptctl.models.records import NOT_VALIDATED, Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe, differences, list_changeable_keys
from mptctl.recipe.own import own_parts
from mptctl.training.optimizer.optim import restore_optimizer
from mptctl.training.request import RunRequest
from mptctl.training.run import PROGRESS, RunState, Student

# Keys of a run's length. They may grow when it is resumed, unless steps that it has done depend on them.
LENGTH = ("optim.epochs", "optim.max_steps")


def resume(request: RunRequest, meta: CheckpointMeta, student: Student, notes: list[str]) -> RunState:
    """Load the newest usable checkpoint into a student, in place: weights, optimizer and average.

    Torch's random numbers go on from the checkpoint too.

    Args:
        request: the run.
        meta: of the checkpoints that the requested run would write.
        student: before its first step.
        notes: what was resumed, and warnings, are added.

    Raises:
        CheckpointError: there is no usable checkpoint, or it is of a different run than requested.
        UsageError: the request makes the run longer, and steps that it has done depend on its length.
    """
    folder, samples = RunDir(request.folder), request.val_samples
    checkpoint = newest_checkpoint(folder, notes)
    training = checkpoint.training or {}
    before = checkpoint.meta
    refuse_differences(before, meta, checkpoint.path)
    student.model.load_state_dict(checkpoint.model)
    restore_optimizer(student.optimizer, training["optimizer"])
    if student.average is not None:
        student.average.restore(training["average"])
    torch.set_rng_state(training["rng"])
    device = student.guard.skip.device
    if "rng_cuda" in training and device.type == "cuda":
        torch.cuda.set_rng_state(training["rng_cuda"], device)
    validation = Validation.from_figures(before.metrics)
    state = RunState(
        **{name: getattr(before, name) for name in PROGRESS},
        validation=validation,
        validation_pending=samples[0] > 0 and validation == NOT_VALIDATED,
        resumed_from=checkpoint.path,
    )
    if before.jpeg_decoder != meta.jpeg_decoder and meta.jpeg_decoder is not None:
        notes.append(
            f"warning: JPEG files were decoded by {before.jpeg_decoder} until here, and are by "
            f"{meta.jpeg_decoder} from here on; where pixels differ, so do the weights"
        )
    if _have_other_times(folder, request.split.file):
        notes.append(
            "warning: times of picture files differ since this run began: pictures may have been replaced, "
            "and then the run goes on with others"
        )
    notes += _note_changed_plugins(folder, request.recipe)
    lost = steps_logged_after(folder.metrics, before.global_step)
    if lost > 0:
        notes.append(f"{lost} logged steps after the checkpoint are computed again")
    return state


def _note_changed_plugins(folder: RunDir, recipe: Recipe) -> list[str]:
    """A warning for each part of one's own whose file has changed since the run was last begun."""
    digests = {(own.kind, own.name): own.digest for own in own_parts(recipe)}
    return [
        f"warning: {was.kind} {was.name}: its file has changed since this run began: it was {was.file} in "
        f"{folder.plugins}, and from here on another one trains"
        for was in folder.read_own()
        if digests.get((was.kind, was.name), was.digest) != was.digest
    ]


def _have_other_times(folder: RunDir, split: SplitFile) -> bool:
    """Tell whether the copy of the split in a run's folder has another manifest, of an equal fingerprint."""
    try:
        begun = parse_split_file(folder.split.read_bytes(), folder.split)
    except (OSError, DataError):
        return False
    return begun.manifest_digest != split.manifest_digest


def training_state(student: Student) -> dict[str, Any]:
    """Collect what only a resumed run needs of a checkpoint: optimizer, random numbers, average."""
    state: dict[str, Any] = {"optimizer": student.optimizer.state_dict(), "rng": torch.get_rng_state()}
    if student.average is not None:
        state["average"] = student.average.state()
    device = student.guard.skip.device
    if device.type == "cuda":
        state["rng_cuda"] = torch.cuda.get_rng_state(device)
    return state


def newest_checkpoint(folder: RunDir, notes: list[str] | None = None) -> Checkpoint:
    """Read last.pt of a run, or previous.pt where last.pt is missing or damaged.

    Args:
        folder: of the run.
        notes: which file it is, and why newer ones are not used, is added.

    Raises:
        CheckpointError: neither can be resumed from.
    """
    notes = [] if notes is None else notes
    problem: CheckpointError | None = None
    for path in (folder.last, folder.previous):
        if not path.exists():
            notes.append(f"{path.name} is not there")
            continue
        try:
            checkpoint = load_checkpoint(path)
        except CheckpointError as error:
            problem = error
            notes.append(f"warning: {error}")
            continue
        if checkpoint.training is None or not {"optimizer", "rng"} <= checkpoint.training.keys():
            problem = CheckpointError(f"{path}: holds no optimizer state; it is for use, not for --resume")
            continue
        notes.append(f"goes on from {path.name}, step {checkpoint.meta.global_step}")
        return checkpoint
    if problem is not None:
        raise problem
    if folder.is_finished():
        raise CheckpointError(
            f"{folder.path}: is finished, and without last.pt it cannot be made longer; begin a new run with "
            f"its weights: --set model.pretrained={folder.best} --name NEW"
        )
    raise CheckpointError(
        f"{folder.path}: nothing to resume: no last.pt in it; start it without --resume, with --overwrite "
        "where an earlier run ended before its first checkpoint"
    )


def was_never_saved(folder: RunDir) -> bool:
    """Tell whether the folder holds a run that was started and never saved a checkpoint."""
    if not folder.environment.is_file() or folder.last.exists() or folder.previous.exists():
        return False
    saved = any(line.event == "checkpoint" for line in read_metrics(folder.metrics))
    return not saved and not folder.is_finished()


def refuse_differences(before: CheckpointMeta, now: CheckpointMeta, path: Path) -> None:
    """Refuse to resume a checkpoint if the requested run differs from the one that wrote it.

    Keys that change results by rounding alone may differ, and the run may be made longer.

    Args:
        before: meta of the checkpoint.
        now: meta of the checkpoints that the requested run would write.
        path: of the checkpoint.

    Raises:
        CheckpointError: other keys differ; the message names them.
        UsageError: the run is made longer, and steps that it has done depend on its length.
    """
    # Without `optim.max_steps` a run has no such limit, so setting one never makes it longer.
    longer = {
        key
        for key, was, is_now in differences(before.recipe, now.recipe)
        if key in LENGTH and was is not None and (is_now is None or was < is_now)
    }
    if longer:
        _refuse_extension(before.recipe, min(longer), path)
    refuse_other_run(before, now, path, "resume it as it was, or use another --name", longer)


def refuse_other_run(
    before: CheckpointMeta, now: CheckpointMeta, path: Path, advice: str, may_change: Collection[str] = ()
) -> None:
    """Refuse a checkpoint whose run is another than the requested one.

    Keys that change results by rounding alone may differ.

    Args:
        before: meta of the checkpoint.
        now: meta of the checkpoints that the requested run would write.
        path: of the checkpoint.
        advice: what to do, the end of the message.
        may_change: further keys of the recipe that may differ.

    Raises:
        CheckpointError: something else differs; the message names it.
    """
    free_keys = {*list_changeable_keys(), *may_change}
    lines = [
        f"{key}: {was} -> {is_now}"
        for key, was, is_now in differences(before.recipe, now.recipe)
        if key not in free_keys
    ]
    lines += [
        f"{key}: {_short(getattr(before, key))} -> {_short(getattr(now, key))}"
        for key in ("split_fingerprint", "class_names")
        if getattr(before, key) != getattr(now, key)
    ]
    roles = sorted(before.teachers.keys() | now.teachers.keys())
    lines += [
        f"teacher {role}: {_short(before.teachers.get(role))} -> {_short(now.teachers.get(role))}"
        for role in roles
        if before.teachers.get(role) != now.teachers.get(role)
    ]
    if lines:
        raise CheckpointError(f"{path}: this is another run: {'; '.join(lines)}; {advice}")


def _refuse_extension(recipe: Recipe, key: str, path: Path) -> None:
    """Raise UsageError if the learning rate or k of a run depends on its length, set by ``key``."""
    spans = [
        name
        for name, spans_run in (
            ("optim.schedule cosine", recipe.optim.schedule == "cosine"),
            (f"method.max_nfr {recipe.method.max_nfr}", nfr_budget(recipe.method) is not None),
            (f"method.k_schedule {recipe.method.k_schedule}", recipe.method.k_schedule != "constant"),
        )
        if spans_run
    ]
    if spans:
        raise UsageError(
            f"{path}: {key}: {' and '.join(spans)} spans the whole run, which was planned shorter; train a "
            "run of that length, which may begin with these weights: --set "
            f"model.pretrained={path.parent / 'best.pt'} --name NEW"
        )


def _short(value: object) -> str:
    """The value as text, cut to 60 characters."""
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
