"""Check a model that a new run is made from without training, and write the folder of that run."""

from __future__ import annotations

from torch import Tensor

from mptctl.data.held_split import hold_manifest
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, UsageError
from mptctl.machine.device import choose_device
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, save_checkpoint
from mptctl.models.finished import describe_unfinished
from mptctl.models.metrics_log import MetricsLine, append_metrics
from mptctl.models.ownership import Existing
from mptctl.models.run_folder import RunDir


def refuse_unfit(checkpoint: Checkpoint, split: Split) -> None:
    """Refuse a model unless its training is finished and held out the validation part of this split.

    A model that does not say which split trained it is accepted: see `warn_of_unknown_training`.

    Raises:
        CheckpointError: the model is of another split.
        UsageError: the split has no validation part, or the model's run is not finished.
    """
    meta = checkpoint.meta
    if meta.split_fingerprint not in (None, split.fingerprint):
        raise CheckpointError(
            f"{checkpoint.path}: was trained on the split {str(meta.split_fingerprint)[:12]}, that of "
            f"{split.run_root} is {split.fingerprint[:12]}: its validation pictures may have trained it; use "
            "its own split, with --run-root"
        )
    if not len(split.indices("val")):
        raise UsageError(
            f"{split.run_root}: the split has no validation part, by which this is decided; "
            "run mptctl split again with --val-fraction 0.1, and train"
        )
    end = describe_unfinished(checkpoint.path, meta)
    if end is not None and end.certain:
        raise UsageError(f"{end.sentence}; finish it first, with the command that began it and --resume")


def warn_of_unknown_training(checkpoint: Checkpoint) -> list[str]:
    """A warning for a model that does not say which split trained it; empty for a run of mptctl."""
    if checkpoint.meta.split_fingerprint is not None:
        return []
    return [
        f"{checkpoint.path}: nothing says which pictures trained it; if validation pictures did, the "
        "adjusted model may break more on others than its budget says"
    ]


def write_run(
    run: RunDir, existing: Existing, meta: CheckpointMeta, weights: dict[str, Tensor], split: Split | None
) -> list[str]:
    """Write the folder of a finished run: checkpoint, recipe, split and log, while the folder is locked.

    An adjusted run has a log, an imported model none.

    Args:
        run: the folder.
        existing: what to do with a run that is in the folder.
        meta: of the checkpoint; its adjustment and metrics become the two lines of the log.
        weights: state dict of ``best.pt``.
        split: of the run; None for an imported model without one.

    Returns:
        Notes on files left in the folder that no run wrote.

    Raises:
        UsageError, StorageError: see `RunDir.locked`.
    """
    with run.locked(existing):
        # The largest file first: where the disk has no room for it, nothing of an existing run is lost.
        save_checkpoint(run.best, meta, weights)
        notes = run.remove_run_files(but=run.best) if existing == "replace" else []
        split_json = None if split is None else split.file.model_dump_json(indent=2)
        run.write_start(meta.recipe.to_yaml(), split_json, choose_device("cpu"))
        if split is not None:
            hold_manifest(split, run.path)
        if meta.adjustment is not None:
            figures = {"epoch": max(meta.epoch, 1), "step": meta.global_step, **meta.metrics}
            adjusted = {"event": "adjust", "adjustment": meta.adjustment, **figures}
            append_metrics(run.metrics, MetricsLine.model_validate(adjusted))
            append_metrics(run.metrics, MetricsLine.model_validate({"event": "done", **figures}))
    return notes
