"""Going on with a run from its last checkpoint, down to the bit, and refusing what would be another run."""

from __future__ import annotations

from pathlib import Path

import torch

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint
from mptctl.models.run_folder import RunDir
from mptctl.recipe import differences
from mptctl.training.run import Progress, Run
from mptctl.training.validate import NOT_VALIDATED, Validation

# What may change between a run and its continuation: where and how fast it computes, not what.
MAY_CHANGE = (
    "data.loader",
    "data.threads",
    "data.prefetch",
    "data.hw_decoder_load",
    "data.resident_limit_gb",
    "runtime.device",
    "runtime.threads",
    "runtime.checkpoint_every_steps",
    "runtime.cache_limit_gb",
)


def resume(run: Run) -> None:
    """Put a run where its newest checkpoint that can be used left off.

    Raises:
        CheckpointError: there is none, or it is of a run that differs from what is asked for.
    """
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
    run.validation_pending = run.validator is not None and run.validation == NOT_VALIDATED
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
