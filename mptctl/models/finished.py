"""The end of a checkpoint's run: whether it was reached, by its folder, or else by the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import MetricsLine, came_to_end, read_metrics
from mptctl.models.run_folder import RunDir


class Unfinished(NamedTuple):
    """A run that did not come to its end, or may not have.

    Attributes:
        certain: false where neither the folder nor the checkpoint can say.
        sentence: which run, and how far it came.
    """

    certain: bool
    sentence: str


def unfinished(path: Path, meta: CheckpointMeta) -> Unfinished | None:
    """Say what is known against the end of a checkpoint's run; None where it was finished or imported.

    The ``done`` line of ``metrics.jsonl`` beside the checkpoint decides; resuming takes it out again. A
    checkpoint outside its run folder is finished where it holds the recipe's last step. ``best.pt`` is mostly
    of an epoch before, and does not say whether another one followed.

    Args:
        path: of the checkpoint; links are followed.
        meta: what it says of itself.
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
    try:
        return read_metrics(run.metrics)
    except (OSError, CheckpointError):
        return []
