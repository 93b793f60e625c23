"""Functions for Python programs and notebooks: compare predictions in memory, list runs, load a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptctl.errors import ComparisonWarning, UsageError, options_as_arguments
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.gate.gate_file import GateFile
from mptctl.evaluation.pairing.class_map import read_class_map
from mptctl.evaluation.pairing.pairs import ALL
from mptctl.evaluation.reading.frames import column, column_names, is_frame, no_column, write_columns
from mptctl.evaluation.reading.in_memory import InMemory, as_names
from mptctl.evaluation.slices.derived_columns import CLASS, CONFIDENCE
from mptctl.evaluation.slices.ranking import SliceRequest, slice_columns
from mptctl.files.scratch import scratch_folder
from mptctl.names import Session
from mptctl.report.documents.flips_object import Report as Report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.evaluation.limits import Limits
    from mptctl.evaluation.reading.predictions import Predictions
    from mptctl.inference.loaded import LoadedRun
    from mptctl.models.run_list import RunEntry


def evaluate(  # noqa: PLR0913  # a published signature
    labels: Any,
    *,
    old: Any,
    new: Any,
    label: str | None = None,
    id: str | None = None,
    by: str | Sequence[str] = (),
    metadata: Any = None,
    must_keep: Any = (),
    class_map: str | Path | None = None,
    ids: Any = None,
    classes: Any = None,
    old_classes: Any = None,
    noise_floor: Any = None,
    baseline: Any = None,
    nfr_margin: float | None = None,
    causes: bool = False,
    validation: tuple[Any, Any] | None = None,
) -> Report:
    """Compare the model in production with its replacement on one test set, as `mptctl evaluate` does.

    Arrays may be lists, or arrays, columns and tables of numpy, torch, jax, pandas, polars or Arrow. Labels,
    predictions and class names are integers or text; 3 and "3" are the same class. With a frame of pandas,
    polars or Arrow as `labels`, give `label`; then the name of a column may stand in place of an array.

    Args:
        labels: (N,) true classes, or a frame.
        old, new: (N,) predictions, or (N, C) logits; the first maximum of a row is the prediction.
        label: column of the frame with true classes.
        id: column of the frame with names of samples.
        by: columns for slices, of the frame or of `metadata`; ``"a,b"`` crosses two columns.
        metadata: further columns of the samples: a file as for `mptctl evaluate --metadata`, or a frame with
            the column `id`, which may have the name that `id` gives.
        must_keep: ids of samples that must not flip; checked by each `Report.gate` beside its limits.
        class_map: file of renamed classes, as for `--class-map`.
        ids: (N,) names of the samples; default: their numbers, from 0.
        classes: (C,) classes that the new model knows, in the order of its logits if it gives logits. Default
            for logits: 0 to C - 1.
        old_classes: the old classes, in the order of `old`'s columns if it is logits of as many columns.
            ``"all"``: all labels. Default: the classes that the old model knows or, with a warning, all
            labels; then a gate must also pass without the labels that the old model never predicts.
        noise_floor: (N,) predictions or (N, C) logits of another training of the old model; its flips measure
            retraining noise.
        baseline: (N,) predictions or (N, C) logits of a plain update, which is shifted to the error of `new`
            on these samples.
        nfr_margin: a fraction; the report tells whether NFR is below it.
        causes: give each flip its cause; needs logits of both models.
        validation: (M,) labels and (M, C) logits of the new model on samples outside training and this test
            set. They are needed for the cause "bias", and turn `causes` on.

    Raises:
        DataError: arrays cannot be read, have unequal lengths, or contradict each other.
        NonFiniteError: rows of logits contain NaN or plus infinity.
        UsageError: the margin is not between 0 and 1, the frame has no such column, or `id` is given without
            `label`.

    Warns:
        ComparisonWarning: something about the comparison is doubtful.
    """
    if nfr_margin is not None and not (isinstance(nfr_margin, Real) and 0 < nfr_margin < 1):
        raise UsageError(
            f"nfr_margin={nfr_margin!r}: must lie between 0 and 1; rates are fractions, 2 % is 0.02"
        )
    if must_keep is not None and not hasattr(must_keep, "__len__"):
        raise UsageError(f"must_keep={must_keep!r}: is no list; give the ids of samples")
    frame = None
    if label is not None:
        _refuse_other_than_frame(labels)
        frame, labels = labels, column(labels, label, "label")
        old, new = _column_or_array(frame, old, "old"), _column_or_array(frame, new, "new")
        noise_floor = _column_or_array(frame, noise_floor, "noise_floor")
        baseline = _column_or_array(frame, baseline, "baseline")
        ids = ids if id is None else column(frame, id, "id")
    elif id is not None:
        raise UsageError(f"id={id!r}: names a column where a frame comes first; give label='COLUMN' too")
    all_are_old = isinstance(old_classes, str) and old_classes == ALL
    test = InMemory.of(labels, ids, classes, None if all_are_old else old_classes)
    validation_part = None if validation is None else _read_validation(validation, test)
    wants_causes = causes or validation is not None
    kept = as_names(must_keep, "must_keep").tolist() if must_keep is not None and len(must_keep) else []
    with options_as_arguments():
        retrained, plain_update = None, None
        if noise_floor is not None:
            retrained = test.predictions("noise_floor", noise_floor, is_old=True)
        if baseline is not None:
            plain_update = test.predictions("baseline", baseline)
        samples = _Samples(
            old=test.predictions("old", old, is_old=True),
            new=test.predictions("new", new),
            request=ComparisonRequest(
                old_classes=ALL if all_are_old else test.old_classes,
                class_map=None if class_map is None else read_class_map(Path(class_map)),
                gate_file=GateFile().keeping(kept) if kept else None,
                nfr_margin=nfr_margin,
                worst=len(test.labels),  # keep every flip; the report chooses which to show
            ),
            columns=(
                frame,
                metadata,
                test.ids,
                slice_columns([by] if isinstance(by, str) else by),
                id or "id",
            ),
        )
        # A function that returns None asks for causes without a validation part.
        request = replace(samples.request, validation=(lambda: validation_part) if wants_causes else None)
        result = samples.compare(request, noise_floor=retrained, baseline=plain_update)
    for remark in result.warnings:
        warnings.warn(remark, ComparisonWarning, stacklevel=2)
    return Report(result, samples, kept)


@dataclass(frozen=True)
class _Samples:
    """Predictions and settings of a comparison, kept to compare again under a gate file.

    Attributes:
        old, new: predictions.
        request: settings of the comparison, without slices.
        columns: positional arguments of `_slicing`.
    """

    old: Predictions
    new: Predictions
    request: ComparisonRequest
    columns: tuple[Any, Any, NDArray[np.str_], Sequence[tuple[str, ...]], str]

    def compare(self, request: ComparisonRequest, **further: Predictions | None) -> FlipReport:
        """Compare with the slices that the request and its gate file need.

        Args:
            request: settings, without slices.
            further: further arguments of `compare`.
        """
        with _slicing(*self.columns, rules=request.rules) as slicing:
            return compare(self.old, self.new, replace(request, slicing=slicing), **further)

    def compare_under(self, gate_file: GateFile, limits: Limits) -> FlipReport:
        """Compare under a gate file and further limits, which the report's gate checks.

        Raises:
            UsageError: the file names other old classes than `evaluate` was given.
        """
        own, given = gate_file.given_old_classes, self.request.old_classes
        if own is not None and given is not None and set(own) != set(given):
            raise UsageError(
                f"{gate_file.name_of_old_classes}: are not the `old_classes` that evaluate was given; give them "
                "in one place"
            )
        return self.compare(replace(self.request, gate_file=gate_file, limits=limits))


def _refuse_other_than_frame(value: Any) -> None:
    """Raise UsageError unless a value is a frame of pandas, polars or Arrow."""
    if not is_frame(value):
        raise UsageError("label: names a column where a frame of pandas, polars or Arrow comes first")


def _column_or_array(frame: Any, value: Any, argument: str) -> Any:
    """Return a frame's column if ``value`` is its name, else ``value``; ``argument`` is for messages."""
    return column(frame, value, argument) if isinstance(value, str | int) else value


@contextmanager
def _slicing(
    frame: Any,
    metadata: Any,
    ids: NDArray[np.str_],
    keys: Sequence[tuple[str, ...]],
    id_name: str,
    *,
    rules: GateFile,
) -> Iterator[SliceRequest]:
    """Write the columns for slices to temporary files, and make the request for slices by them.

    The files are removed when the ``with`` block ends.

    Args:
        frame: frame of the samples; None without one.
        metadata: further columns, as for `evaluate`.
        ids: (N,) names of the samples.
        keys: columns of each slicing that is asked for.
        id_name: name of the column with ids.
        rules: gate file, which may need further columns.
    """
    wanted = list(dict.fromkeys(name for key in (*keys, *rules.keys()) for name in key))
    if not wanted:
        yield SliceRequest()
        return
    with scratch_folder() as scratch:
        yield SliceRequest(
            by=keys, files=_write_slice_columns(scratch, frame, metadata, ids, wanted, id_name)
        )


def _write_slice_columns(
    scratch: Path, frame: Any, metadata: Any, ids: NDArray[np.str_], wanted: Sequence[str], id_name: str
) -> list[Path]:
    """Write the wanted columns of the frame and of the metadata into a folder; return the files.

    Metadata that is a file already is returned as it is. Other arguments are those of `_slicing`.

    Raises:
        UsageError: a wanted column is in neither, or metadata is neither a frame nor a path.
    """
    known = [] if frame is None else column_names(frame)
    files: list[Path] = []
    if own := [name for name in wanted if name in known]:
        files.append(scratch / "columns.parquet")
        write_columns(files[-1], frame, own, ids, id_name)
    if isinstance(metadata, str | Path):
        return [*files, Path(metadata)]
    if metadata is not None:
        if not is_frame(metadata):
            raise UsageError("metadata: neither a frame of pandas, polars or Arrow nor the path of a file")
        names = column_names(metadata)
        known += names
        id_column = id_name if id_name in names else "id"
        if further := [name for name in wanted if name in names and name != id_column]:
            files.append(scratch / "metadata.parquet")
            write_columns(files[-1], metadata, further, None, id_column)
    absent = [name for name in wanted if name not in {*known, CLASS, CONFIDENCE}]
    if known and absent:
        raise no_column(absent[0], known, "by")
    return files


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


def _read_validation(validation: tuple[Any, Any], test: InMemory) -> Predictions:
    """Read the argument `validation` of `evaluate` as predictions, with the classes of the test set.

    Raises:
        UsageError: it is not a pair, or has no logits.
        DataError, NonFiniteError: the arrays cannot be read.
    """
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise UsageError(
            "validation: is not a pair; give labels and the new model's logits: validation=(labels, logits)"
        )
    labels, logits = validation
    part = InMemory.of(labels, None, test.classes, test.old_classes).predictions("validation", logits)
    if part.logits is None:
        raise UsageError("validation: holds predictions; give the new model's logits, (M, C)")
    return part
