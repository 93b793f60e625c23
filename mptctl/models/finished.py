"""Tells from the run folder, or else from the checkpoint alone, whether a checkpoint's run was finished."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import MetricsLine, came_to_end, read_metrics
from mptctl.models.run_folder import RunDir


class Unfinished(NamedTuple):
    """A run that is not finished, or may not be.

    Attributes:
        certain: False where neither the folder nor the checkpoint tells.
        sentence: names the run, and says how far it came.
    """

    certain: bool
    sentence: str


def unfinished(path: Path, meta: CheckpointMeta) -> Unfinished | None:
    """Find out whether the run of a checkpoint is unfinished; None where it was finished or imported.

    The ``done`` line of ``metrics.jsonl`` beside the checkpoint decides; a resumed run takes it out again. A
    checkpoint outside its run folder is finished where it is of the recipe's last step. ``best.pt`` is mostly
    of an earlier epoch, and cannot tell whether the run went on.

    Args:
        path: of the checkpoint; links are followed.
        meta: of the checkpoint.
    """
    if meta.origin == "imported":
        return None
    optim = meta.recipe.optim
    file = path.resolve()
    run = RunDir(file.parent)
    lines = _log_or_nothing(run)
    if lines and not came_to_end(lines):
        total = next((line.total_steps for line in reversed(lines) if line.total_steps is not None), None)
        at = "" if total is None else f", stopped at step {lines[-1].step:,} of {total:,}"
        sentence = f"{path}: its run is not finished (epoch {lines[-1].epoch} of {optim.epochs}{at})"
        return Unfinished(True, sentence)
    if lines and file in (run.best, run.last, run.previous):
        return None
    at_end = meta.epoch >= optim.epochs or (
        optim.max_steps is not None and meta.global_step >= optim.max_steps
    )
    if at_end or not meta.global_step:
        return None
    if meta.step_in_epoch:
        sentence = f"{path}: saved in mid-run (in epoch {meta.epoch + 1} of {optim.epochs})"
        return Unfinished(True, sentence)
    return Unfinished(
        False,
        f"{path}: saved after epoch {meta.epoch} of {optim.epochs}, and without its run folder it cannot be "
        "known whether the run was finished",
    )


def _log_or_nothing(run: RunDir) -> list[MetricsLine]:
    """The lines of a run's log; none where it cannot be read."""
    try:
        return read_metrics(run.metrics)
    except (OSError, CheckpointError):
        return []
