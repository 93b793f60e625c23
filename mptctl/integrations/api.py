"""Functions for Python programs and notebooks: compare predictions in memory, list runs, load a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptctl.errors import ComparisonWarning, UsageError, options_as_arguments
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.gate.gate_file import GateFile
from mptctl.evaluation.pairing.class_map import read_class_map
from mptctl.evaluation.pairing.pairs import ALL
from mptctl.evaluation.reading.frames import column, is_frame
from mptctl.evaluation.reading.in_memory import InMemory, as_names
from mptctl.evaluation.reading.workspace import workspace
from mptctl.evaluation.slices.ranking import slice_columns
from mptctl.integrations.slice_columns import SliceColumns
from mptctl.integrations.two_models import read_model, refuse_arguments_of_arrays
from mptctl.names import Session
from mptctl.report.documents.flips_object import Report as Report

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.evaluation.limits import Limits
    from mptctl.evaluation.reading.predictions import Predictions
    from mptctl.inference.loaded import LoadedRun
    from mptctl.models.run_list import RunEntry


def evaluate(  # noqa: PLR0913  # a published signature
    labels: Any,
    replacement: Any = None,
    *,
    old: Any = None,
    new: Any = None,
    label: str | None = None,
    id: str | None = None,
    by: str | Sequence[str] = (),
    metadata: Any = None,
    must_keep: Any = (),
    class_map: str | Path | None = None,
    ids: Any = None,
    classes: Any = None,
    old_classes: Any = None,
) -> Report:
    """Compare the model in production with its replacement on one test set, as `mptctl evaluate` does.

    Give two predictions files, or two frames with the columns of such files (`id`, `label`, and `pred` or
    `logits`): ``evaluate("old.csv", "new.csv")``. Their samples are matched by id. Or give labels, and
    predictions of both models in the same order: ``evaluate(labels, old=..., new=...)``. Arrays may be lists,
    or arrays, columns and tables of numpy, torch, jax, pandas, polars or Arrow. Labels, predictions and class
    names are integers or text; 3 and "3" are the same class. With a frame of pandas,
    polars or Arrow as `labels`, give `label`; then the name of a column may stand in place of an array.

    Args:
        labels: (N,) true classes, or a frame. Without `old` and `new`: OLD, a predictions file or a frame.
        replacement: NEW, where the first argument is OLD.
        old, new: (N,) predictions, or (N, C) logits; the first maximum of a row is the prediction.
        label: column of the frame, or of OLD and NEW, with true classes.
        id: column of the frame, or of OLD and NEW, with names of samples.
        by: columns for slices, of the frames, the files or `metadata`; ``"a,b"`` crosses two columns.
        metadata: further columns of the samples: a file as for `mptctl evaluate --metadata`, or a frame with
            the column `id`, which may have the name that `id` gives.
        must_keep: ids of samples that must not flip; checked by each `Report.gate` beside its limits.
        class_map: file of renamed classes, as for `--class-map`.
        ids: (N,) names of the samples; default: their numbers, from 0.
        classes: (C,) classes that the new model knows, in the order of its logits if it gives logits. Default
            for logits: 0 to C - 1.
        old_classes: the old classes, in the order of `old`'s columns if it is logits of as many columns.
            ``"all"``: all labels. Default: the classes that the old model knows or, with a warning, the
            labels that it predicts.

    Raises:
        DataError: arrays cannot be read, have unequal lengths, or contradict each other.
        NonFiniteError: rows of logits contain NaN or plus infinity.
        UsageError: the frame has no such column, or `id` is given without
            `label`.

    Warns:
        ComparisonWarning: something about the comparison is doubtful.
    """
    if must_keep is not None and not hasattr(must_keep, "__len__"):
        raise UsageError(f"must_keep={must_keep!r}: is no list; give the ids of samples")
    keys = slice_columns([by] if isinstance(by, str) else by)
    all_are_old = isinstance(old_classes, str) and old_classes == ALL
    listed = None
    if old_classes is not None and not all_are_old:
        listed = tuple(as_names(old_classes, "old_classes").tolist())
    kept = as_names(must_keep, "must_keep").tolist() if must_keep is not None and len(must_keep) else []
    # A call has a connection of its own, so that threads do not wait for, or disturb, one another.
    with options_as_arguments(), workspace():
        if old is None and new is None:
            refuse_arguments_of_arrays(ids=ids, classes=classes)
            given = {"old": labels, "new": replacement}
            models, columns = _read_two_models(given, label, id)
        else:
            if old is None or new is None or replacement is not None:
                raise UsageError("evaluate: give labels with old= and new=, or two files or frames: OLD, NEW")
            given = {"old": old, "new": new}
            models, columns = _read_arrays(given, labels, label, id, (ids, classes, listed))
        samples = _Samples(
            old=models["old"],
            new=models["new"],
            request=ComparisonRequest(
                old_classes=ALL if all_are_old else listed,
                class_map=None if class_map is None else read_class_map(Path(class_map)),
                gate_file=GateFile().keeping(kept) if kept else None,
                listed_flips=len(models["old"]),  # keep every flip; the report chooses which to show
            ),
            columns=replace(columns, keys=keys, metadata=metadata, id_name=id or "id"),
        )
        result = samples.compare(samples.request)
    for remark in result.warnings:
        warnings.warn(remark, ComparisonWarning, stacklevel=2)
    return Report(result, samples.compare_under, kept)


def _read_two_models(
    given: Mapping[str, Any], label: str | None, id: str | None
) -> tuple[dict[str, Predictions], SliceColumns]:
    """Read models that bring their own ids and labels: files or frames.

    Args:
        given: by role.
        label, id: names of these columns in frames; None: as in files.

    Returns:
        The predictions by role, and where columns of slices are.
    """
    names = {key: name for key, name in (("label", label), ("id", id)) if name is not None}
    models = {role: read_model(value, role, names) for role, value in given.items()}
    return models, SliceColumns(
        keys=(),
        frames=[(value, models[role].ids) for role, value in given.items() if is_frame(value)],
        files=[Path(value) for value in given.values() if not is_frame(value)],
    )


def _read_arrays(
    given: Mapping[str, Any], labels: Any, label: str | None, id: str | None, names: tuple[Any, Any, Any]
) -> tuple[dict[str, Predictions], SliceColumns]:
    """Read the predictions of models as arrays beside common labels, or as columns of one frame.

    Args:
        given: by role.
        labels: (N,) true classes, or a frame.
        label, id: names of these columns of the frame; None: no frame, and no ids in it.
        names: the arguments `ids`, `classes` and `old_classes`.

    Returns:
        As `_read_two_models`.
    """
    ids, classes, old_classes = names
    frame = None
    if label is not None:
        if not is_frame(labels):
            raise UsageError("label: names a column where a frame of pandas, polars or Arrow comes first")
        frame, labels = labels, column(labels, label, "label")
        given = {
            role: column(frame, value, role) if isinstance(value, str | int) else value
            for role, value in given.items()
        }
        ids = ids if id is None else column(frame, id, "id")
    elif id is not None:
        raise UsageError(f"id={id!r}: names a column where a frame comes first; give label='COLUMN' too")
    test = InMemory.of(labels, ids, classes, old_classes)
    models = {role: test.predictions(role, value, is_old=role == "old") for role, value in given.items()}
    return models, SliceColumns(keys=(), frames=[] if frame is None else [(frame, test.ids)])


@dataclass(frozen=True)
class _Samples:
    """Predictions and settings of a comparison, kept to compare again under a gate file.

    Attributes:
        old, new: predictions.
        request: settings of the comparison, without slices.
        columns: where the columns of slices are.
    """

    old: Predictions
    new: Predictions
    request: ComparisonRequest
    columns: SliceColumns

    def compare(self, request: ComparisonRequest) -> FlipReport:
        """Compare with the slices that the request, whose settings have none, and its gate file need."""
        with workspace(), self.columns.request(request.rules) as slicing:
            return compare(self.old, self.new, replace(request, slicing=slicing))

    def compare_under(self, gate_file: GateFile, limits: Limits) -> FlipReport:
        """Compare under a gate file and further limits, which the report's gate checks.

        Raises:
            UsageError: the file names other old classes than `evaluate` was given.
        """
        own, given = gate_file.given_old_classes, self.request.old_classes
        if own is not None and given is not None and set(own) != set(given):
            raise UsageError(
                f"{gate_file.name_of_old_classes}: are not the `old_classes` that evaluate was given; give "
                "them in one place"
            )
        return self.compare(replace(self.request, gate_file=gate_file, limits=limits))


def load(run: str | Path, run_root: str | Path = "runs", device: str = "cpu") -> LoadedRun:
    """Load a trained model, ready to predict.

    Args:
        run: a run's name below `run_root`, a run folder, or a checkpoint file.
        run_root: folder of all runs.
        device: device of the model: auto, cpu, cuda or cuda:N.

    Raises:
        CheckpointError: there is no such checkpoint, or it is damaged.
        UsageError: there is no such device.
    """
    from mptctl.inference.loaded import load_run

    return load_run(str(run), Session(Path(run_root), device))


def runs(folder: str | Path = "runs") -> list[RunEntry]:
    """List the runs below a run root, at any depth, with state, method and validation error.

    Every checkpoint is read and verified. `load(folder / run.run)` loads a listed run.

    Args:
        folder: the run root.

    Raises:
        UsageError: there is no such folder.
    """
    from mptctl.models.run_list import list_runs

    if not Path(folder).is_dir():
        raise UsageError(f"runs: {folder}: no such folder; name the one with the runs")
    return list_runs(Path(folder)).runs
