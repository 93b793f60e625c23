"""Resumes a run from its last checkpoint, to the bit, and refuses a request that would be another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from mptctl.errors import CheckpointError, UsageError
from mptctl.methods.rows import budget_of
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint
from mptctl.models.metrics_log import read_metrics, steps_logged_after
from mptctl.models.records import NOT_VALIDATED, Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe, differences, may_change_between_starts
from mptctl.training.run import RunState, Student

# Keys that may grow, where no step that was done depends on the run's length.
LENGTH = ("optim.epochs", "optim.max_steps")
# Decoders of runs whose checkpoints name none.
OF_EARLIER_VERSIONS = "torchvision or DALI"
# Keys that a run without teachers never reads.
OF_TEACHERS = {"runtime.cache_teachers", "runtime.teacher_precision"}


class Resumed(NamedTuple):
    """A run that was loaded from a checkpoint.

    Attributes:
        path: of the checkpoint.
        state: the progress of the run in it.
        notes: for the user.
    """

    path: Path
    state: RunState
    notes: list[str]


def resume(folder: RunDir, meta: CheckpointMeta, student: Student, samples: tuple[int, int]) -> Resumed:
    """Load the newest usable checkpoint into a student: weights, optimizer, average, random numbers.

    Args:
        folder: of the run.
        meta: of the checkpoints that the requested run would write.
        student: as it starts.
        samples: number of validation samples, and of those of old classes.

    Raises:
        CheckpointError: there is none, or it is of a run that differs from what is asked for.
    """
    checkpoint, training, notes = newest_checkpoint(folder)
    before = checkpoint.meta
    refuse_differences(before, meta, checkpoint.path)
    student.model.load_state_dict(checkpoint.model)
    student.optimizer.load_state_dict(training["optimizer"])
    if student.average is not None:
        student.average.restore(training["average"])
    torch.set_rng_state(training["rng"])
    device = student.guard.skip.device
    if "rng_cuda" in training and device.type == "cuda":
        torch.cuda.set_rng_state(training["rng_cuda"], device)
    validation = Validation.from_figures(before.metrics, *samples)
    state = RunState(
        epoch=before.epoch,
        step_in_epoch=before.step_in_epoch,
        global_step=before.global_step,
        best_error=before.best_error,
        validation=validation,
        validation_pending=samples[0] > 0 and validation == NOT_VALIDATED,
        bias_path=before.bias_path,
    )
    if before.jpeg_decoder != meta.jpeg_decoder and meta.jpeg_decoder is not None:
        was = before.jpeg_decoder or OF_EARLIER_VERSIONS
        notes.append(
            f"warning: JPEG files were decoded by {was} until here, and are by {meta.jpeg_decoder} from here "
            "on; where pixels differ, so do the weights"
        )
    lost = steps_logged_after(folder.metrics, before.global_step)
    if lost > 0:
        notes.append(f"{lost} logged steps after the checkpoint are computed again")
    return Resumed(checkpoint.path, state, notes)


def training_state(student: Student) -> dict[str, Any]:
    """The part of a checkpoint that only a resumed run needs: optimizer, random numbers, average."""
    state: dict[str, Any] = {"optimizer": student.optimizer.state_dict(), "rng": torch.get_rng_state()}
    if student.average is not None:
        state["average"] = student.average.state()
    device = student.guard.skip.device
    if device.type == "cuda":
        state["rng_cuda"] = torch.cuda.get_rng_state(device)
    return state


class Newest(NamedTuple):
    """The newest checkpoint that can be resumed from, its training state, and notes on newer ones."""

    checkpoint: Checkpoint
    training: dict[str, Any]
    notes: list[str]


def newest_checkpoint(folder: RunDir) -> Newest:
    """Read the newest checkpoint that can be resumed from.

    Raises:
        CheckpointError: there is none.
    """
    notes: list[str] = []
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
        return Newest(checkpoint, checkpoint.training, notes)
    if problem is not None:
        raise problem
    raise CheckpointError(
        f"{folder.path}: nothing to resume: no last.pt in it; start it without --resume, with --overwrite "
        "where an earlier run ended before its first checkpoint"
    )


def was_never_saved(folder: RunDir) -> bool:
    """Tell whether a run ended before its first checkpoint, so that a new start loses nothing."""
    if not folder.environment.is_file() or folder.last.exists() or folder.previous.exists():
        return False
    saved = any(line.event == "checkpoint" for line in read_metrics(folder.metrics))
    return not saved and not folder.is_finished()


def refuse_differences(before: CheckpointMeta, now: CheckpointMeta, path: Path) -> None:
    """Refuse to resume a checkpoint as a run that differs from its own.

    Args:
        before: meta of the checkpoint.
        now: meta of the checkpoints that the requested run would write.
        path: of the checkpoint.

    Raises:
        CheckpointError: names the keys that differ and change more than rounding.
        UsageError: the run was made longer, and its first steps would have been others.
    """
    changes = differences(before.recipe, now.recipe)
    longer = {
        key for key, was, is_now in changes if key in LENGTH and (is_now is None or (was or 0) < is_now)
    }
    if longer:
        _refuse_extension(before.recipe, min(longer), path)
    may_change = may_change_between_starts() | longer
    if not before.teachers and not now.teachers:
        may_change |= OF_TEACHERS
    lines = [f"{key}: {was} -> {is_now}" for key, was, is_now in changes if key not in may_change]
    lines += [
        f"{key}: {_short(getattr(before, key))} -> {_short(getattr(now, key))}"
        for key in ("split_fingerprint", "class_names", "teachers")
        if getattr(before, key) != getattr(now, key)
    ]
    if lines:
        raise CheckpointError(
            f"{path}: this is another run: {'; '.join(lines)}; resume it as it was, or use another --name"
        )


def _refuse_extension(recipe: Recipe, key: str, path: Path) -> None:
    """Refuse to make a run longer whose learning rate or bias depends on where it ends."""
    spans = [
        name
        for name, whole in (
            ("optim.schedule cosine", recipe.optim.schedule == "cosine"),
            (f"method.max_nfr {recipe.method.max_nfr}", budget_of(recipe.method) is not None),
            (f"method.k_schedule {recipe.method.k_schedule}", recipe.method.k_schedule != "constant"),
        )
        if whole
    ]
    if spans:
        raise UsageError(
            f"{path}: {key}: {' and '.join(spans)} spans the whole run, which was planned shorter; train a "
            "run of that length, which may begin with these weights: --set "
            f"model.pretrained={path.parent / 'best.pt'} --name NEW"
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
