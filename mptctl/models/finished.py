"""Tells whether a checkpoint comes from a finished run, by its run folder or by the checkpoint alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import MetricsLine, ends_as_finished, read_metrics
from mptctl.models.run_folder import RunDir


class Unfinished(NamedTuple):
    """A checkpoint whose run is not finished, or perhaps not finished.

    Attributes:
        certain: True if the run is known to be unfinished; False if nothing tells.
        sentence: for a message; names the checkpoint and says how far its run came.
    """

    certain: bool
    sentence: str


def describe_unfinished(path: Path, meta: CheckpointMeta) -> Unfinished | None:
    """Describe how a checkpoint's run is unfinished.

    With ``metrics.jsonl`` beside the checkpoint, the run is finished if the log ends in a ``done`` line,
    which resuming removes. Without the log, the run is finished if the checkpoint is of the recipe's last
    step. A ``best.pt`` is usually of an earlier step, so without its log nothing tells.

    Args:
        path: of the checkpoint; links are followed.
        meta: of the checkpoint.

    Returns:
        None if the run is finished, the model was imported, or the checkpoint is from before the first step.
    """
    if meta.origin == "imported":
        return None
    optim = meta.recipe.optim
    file = path.resolve()
    run = RunDir(file.parent)
    lines = _read_log(run)
    if lines and not ends_as_finished(lines):
        last = lines[-1]
        totals = [line.total_steps for line in lines if line.total_steps is not None]
        stopped = f", stopped at step {last.step:,} of {totals[-1]:,}" if totals else ""
        sentence = f"{path}: its run is not finished (epoch {last.epoch} of {optim.epochs}{stopped})"
        return Unfinished(True, sentence)
    if lines and file in (run.best, run.last, run.previous):
        return None
    has_all_epochs = meta.epoch >= optim.epochs
    has_all_steps = optim.max_steps is not None and meta.global_step >= optim.max_steps
    if has_all_epochs or has_all_steps or meta.global_step == 0:
        return None
    if meta.step_in_epoch:
        sentence = f"{path}: saved in mid-run (in epoch {meta.epoch + 1} of {optim.epochs})"
        return Unfinished(True, sentence)
    return Unfinished(
        False,
        f"{path}: saved after epoch {meta.epoch} of {optim.epochs}, and without its run folder it cannot be "
        "known whether the run was finished",
    )


def _read_log(run: RunDir) -> list[MetricsLine]:
    """Read a run's ``metrics.jsonl``; an empty list if the file is missing or cannot be read."""
    try:
        return read_metrics(run.metrics)
    except (OSError, CheckpointError):
        return []
