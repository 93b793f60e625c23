"""Tells whether a checkpoint comes from a finished run, by its run folder or by the checkpoint alone."""

from __future__ import annotations

from pathlib import Path

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import ends_as_finished, read_metrics
from mptctl.models.run_folder import RunDir


def describe_unfinished(path: Path, meta: CheckpointMeta) -> str | None:
    """Describe how a checkpoint's run is unfinished, in a sentence; None if it is not known to be.

    With ``metrics.jsonl`` beside the checkpoint, the run is finished if the log ends in a ``done`` line,
    which resuming removes. Of a checkpoint without the log, only that it was saved within an epoch tells.

    Args:
        path: of the checkpoint; links are followed.
        meta: of the checkpoint.
    """
    epochs = meta.recipe.optim.epochs
    run = RunDir(path.resolve().parent)
    try:
        lines = [] if meta.origin == "imported" else read_metrics(run.metrics)
    except (OSError, CheckpointError):
        lines = []
    if lines and not ends_as_finished(lines):
        last = lines[-1]
        totals = [line.total_steps for line in lines if line.total_steps is not None]
        stopped = f", stopped at step {last.step:,} of {totals[-1]:,}" if totals else ""
        return f"{path}: its run is not finished (epoch {last.epoch} of {epochs}{stopped})"
    max_steps = meta.recipe.optim.max_steps
    is_last_step = max_steps is not None and meta.global_step >= max_steps
    if lines or meta.origin == "imported" or not meta.step_in_epoch or is_last_step:
        return None
    return f"{path}: saved in mid-run (in epoch {meta.epoch + 1} of {epochs})"
