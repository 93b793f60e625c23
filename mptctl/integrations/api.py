"""Functions for Python programs and notebooks: compare answers in memory, and load a trained model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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

    Arrays are lists or arrays, columns and tables of numpy, torch, jax, pandas, polars or Arrow. Labels,
    answers and class names are integers or text; 3 and "3" are one class. Where a frame of pandas, polars or
    Arrow comes first, `label` names its column of true classes, and text in place of an array a column.

    Args:
        labels: (N,) true classes, or a frame.
        label, id: columns of the frame: true classes, and names of samples.
        by: column of slices, or several, of the frame or of `metadata`; ``"a,b"`` crosses two.
        metadata: further columns of the samples by id: a frame with the column `id`, or what it is called in
            the first frame, or a file as `mptctl evaluate --metadata` takes it.
        must_keep: ids of samples that must not flip, beside every limit of `Report.gate`.
        class_map: file of renamed classes, as `--class-map` takes it.
        old, new: (N,) answers, or (N, C) logits, of which the first maximum of a row is the answer.
        ids: (N,) what the samples are called; default: their places, from 0.
        classes: (C,) the classes that the new model can answer; where it gives logits, in the order of its
            columns. Without it, columns are the classes 0 to C - 1.
        old_classes: the classes that count as old; where `old` is logits of as many columns, in their order.
            ``"all"``: all labels. Default: those that the old model can answer, or all labels, with a
            warning; then a gate has to pass without the labels that the old model never answers, too.
        noise_floor: (N,) or (N, C) of another training of the old model; what it flips is chance.
        baseline: (N,) or (N, C) of a plain update, shifted to the error of `new` on these samples.
        nfr_margin: a fraction; is NFR below it?
        causes: give each flip its cause, where both models give logits.
        validation: (M,) labels and (M, C) logits of the new model on samples that it was not trained on and
            that are not in this test set: with them the cause "bias" is told from others. Given, `causes` is
            on.

    Raises:
        DataError: arrays that cannot be read, are of unequal length, or contradict each other.
        NonFiniteError: rows of logits with NaN or plus infinity.
        UsageError: a margin that is not between 0 and 1, or a column that the frame does not have.
    """
    if nfr_margin is not None and not 0 < nfr_margin < 1:
        raise UsageError(
            f"nfr_margin={nfr_margin:g}: must lie between 0 and 1; rates are fractions, 2 % is 0.02"
        )
    frame = None
    if label is not None:
        frame, labels = labels, column(_frame(labels), label, "label")
        old, new = _of_frame(frame, old, "old"), _of_frame(frame, new, "new")
        noise_floor = _of_frame(frame, noise_floor, "noise_floor")
        baseline = _of_frame(frame, baseline, "baseline")
        ids = ids if id is None else column(frame, id, "id")
    elif id is not None:
        raise UsageError(f"id={id!r}: names a column where a frame comes first; give label='COLUMN' too")
    everything = isinstance(old_classes, str) and old_classes == ALL
    test = InMemory.of(labels, ids, classes, None if everything else old_classes)
    held_back = None if validation is None else _held_back(validation, test)
    wants_causes = causes or validation is not None
    kept = as_names(must_keep, "must_keep").tolist() if len(must_keep) else []
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
                old_classes=ALL if everything else test.old_classes,
                class_map=None if class_map is None else read_class_map(Path(class_map)),
                gate_file=GateFile().keeping(kept) if kept else None,
                nfr_margin=nfr_margin,
                worst=len(test.labels),  # every flip: what is shown of them is for the report to choose
            ),
            columns=(
                frame,
                metadata,
                test.ids,
                slice_columns([by] if isinstance(by, str) else by),
                id or "id",
            ),
        )
        # A function that gives None means: causes, but without a validation part.
        request = replace(samples.request, validation=(lambda: held_back) if wants_causes else None)
        result = samples.compare(request, noise_floor=retrained, baseline=plain_update)
    for remark in result.warnings:
        warnings.warn(remark, ComparisonWarning, stacklevel=2)
    return Report(result, samples, kept)


@dataclass(frozen=True)
class _Samples:
    """The predictions that were compared, kept so that a gate file can be held against them.

    Attributes:
        old, new: predictions.
        request: what was asked, without slices.
        columns: arguments of `_slicing` that slices are found by.
    """

    old: Predictions
    new: Predictions
    request: ComparisonRequest
    columns: tuple[Any, Any, NDArray[np.str_], Sequence[tuple[str, ...]], str]

    def compare(self, request: ComparisonRequest, **further: Predictions | None) -> FlipReport:
        """The comparison with the slices that were asked for; `further` as of `compare`."""
        with _slicing(*self.columns, rules=request.rules) as slicing:
            return compare(self.old, self.new, replace(request, slicing=slicing), **further)

    def compared(self, gate_file: GateFile, limits: Limits) -> FlipReport:
        """The comparison with its gate held to a gate file, and to limits beside it."""
        return self.compare(replace(self.request, gate_file=gate_file, limits=limits))


def _frame(value: Any) -> Any:
    if not is_frame(value):
        raise UsageError("label: names a column where a frame of pandas, polars or Arrow comes first")
    return value


def _of_frame(frame: Any, value: Any, argument: str) -> Any:
    """A column of the frame where a name is given; anything else is the array itself."""
    return column(frame, value, argument) if isinstance(value, str) else value


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
    """Slices by columns of the frame and of metadata, which are in files until the block ends."""
    wanted = list(dict.fromkeys(name for key in (*keys, *rules.keys()) for name in key))
    if not wanted:
        yield SliceRequest()
        return
    with scratch_folder() as scratch:
        yield SliceRequest(by=keys, files=_files_of_columns(scratch, frame, metadata, ids, wanted, id_name))


def _files_of_columns(
    scratch: Path, frame: Any, metadata: Any, ids: NDArray[np.str_], wanted: Sequence[str], id_name: str
) -> list[Path]:
    """The files that slices are read from: of the frame's own columns, and of metadata."""
    there = [] if frame is None else column_names(frame)
    files: list[Path] = []
    if own := [name for name in wanted if name in there]:
        files.append(scratch / "columns.parquet")
        write_columns(files[-1], frame, own, ids, id_name)
    if isinstance(metadata, str | Path):
        return [*files, Path(metadata)]
    if metadata is not None:
        if not is_frame(metadata):
            raise UsageError("metadata: neither a frame of pandas, polars or Arrow nor the path of a file")
        beside = column_names(metadata)
        there += beside
        named = id_name if id_name in beside else "id"
        if further := [name for name in wanted if name in beside and name != named]:
            files.append(scratch / "metadata.parquet")
            write_columns(files[-1], metadata, further, None, named)
    absent = [name for name in wanted if name not in {*there, CLASS, CONFIDENCE}]
    if there and absent:
        raise no_column(absent[0], there, "by")
    return files


def load(run: str | Path, run_root: str | Path = "runs", device: str = "cpu") -> LoadedRun:
    """A trained model, ready to infer.

    Args:
        run: a run's name below `run_root`, a run folder, or a ``.pt`` file of ours.
        run_root: where runs are.
        device: where it computes: auto, cpu, cuda or cuda:N.

    Raises:
        CheckpointError: there is none, or it is damaged.
        UsageError: no such device.
    """
    from mptctl.inference.loaded import load_run

    return load_run(str(run), Session(Path(run_root), device))


def runs(folder: str | Path = "runs") -> list[RunEntry]:
    """The runs below a run root, at any depth: where, in which state, which method, and its validation error.

    Each is found again by `load(folder / run.run)`.

    Args:
        folder: the run root; every checkpoint in it is read and verified.

    Raises:
        UsageError: no such folder.
    """
    from mptctl.models.run_list import list_runs

    if not Path(folder).is_dir():
        raise UsageError(f"runs: {folder}: no such folder; name the one with the runs")
    return list_runs(Path(folder)).runs


def _held_back(validation: tuple[Any, Any], test: InMemory) -> Predictions:
    """The new model's predictions of its validation part."""
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise UsageError(
            "validation: is not a pair; give labels and the new model's logits: validation=(labels, logits)"
        )
    labels, logits = validation
    part = InMemory.of(labels, None, test.classes, test.old_classes)
    return part.predictions("validation", logits)
