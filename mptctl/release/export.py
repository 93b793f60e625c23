"""Export a trained run to a file for other programs, if the file predicts as the checkpoint does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field

from mptctl.data.classes import label_map
from mptctl.data.split import Split
from mptctl.errors import GateFailed, NonFiniteError, UsageError
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.files import Model, output_file, scratch_folder, write_atomically
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.inference.predict import compute_outputs
from mptctl.models.checkpoint import Checkpoint, load_checkpoint, load_model
from mptctl.models.export_meta import ExportMeta, Preprocessing, sidecar_path
from mptctl.models.programs import ONNX
from mptctl.names import ExportFormat, Session
from mptctl.release.export_formats import WRITERS
from mptctl.release.new_run import refuse_unfit
from mptctl.release.requests import ExportRequest


class ExportReport(Model):
    """The export, and the differences of its predictions from the checkpoint's on validation pictures."""

    run: str = Field(description="the checkpoint")
    file: str = Field(description="path of the written file")
    described: str = Field(description="the JSON beside it: classes, pictures, split")
    format: ExportFormat = Field(description="of the file")
    bytes: int = Field(description="size of the file")
    pictures: int = Field(description="validation pictures that both answered")
    max_difference: float = Field(description="largest difference of two logits")
    tolerance: float = Field(description="that it was to keep")
    answers_differ: int = Field(description="pictures that the two answer differently")
    right_before: int = Field(description="pictures that the checkpoint answers right")
    right_after: int = Field(description="pictures that the export answers right")
    negative_flips: int = Field(description="right before, wrong after")
    positive_flips: int = Field(description="wrong before, right after")


def refuse_contradictions(request: ExportRequest) -> None:
    """Refuse flags that contradict each other; no file is read.

    Raises:
        UsageError: format, ending, preprocessing or tolerance do not go together.
    """
    if request.format != "onnx" and request.with_preprocessing:
        raise UsageError(f"--with-preprocessing: is for --format onnx, not {request.format}; name that")
    if request.out is not None and request.out.suffix.lower() != f".{request.format}":
        raise UsageError(
            f"--out {request.out}: --format {request.format} wants the ending .{request.format}; name one"
        )
    if not 0 <= request.tolerance < float("inf"):
        raise UsageError(f"--tolerance {request.tolerance:g}: must be a number from 0 on")


def export(request: ExportRequest, session: Session) -> ExportReport:
    """Write a run's model for other programs, and beside it a JSON description.

    Checkpoint and export predict the validation pictures, both on the CPU. Nothing is written unless their
    logits agree within the tolerance.

    Args:
        request: the run, and how to export it.
        session: where runs and the split are.

    Raises:
        UsageError: flags contradict each other, packages of the format are not installed, the network cannot
            be exported, the run is not finished or its split has no validation part.
        CheckpointError: there is no such run, or it is of another split.
        GateFailed: the logits differ by more than the tolerance.
        NonFiniteError: logits of the export are not finite.
        StorageError: a file cannot be written.
    """
    refuse_contradictions(request)
    checkpoints, split = load_named_checkpoints([request.run], session)
    checkpoint = checkpoints[request.run]
    if checkpoint.meta.recipe.model.arch == ONNX:
        raise UsageError(f"{checkpoint.path}: is a program already; export the run that it was made from")
    refuse_unfit(checkpoint, split)
    target = output_file(request.file(checkpoint.path))
    with scratch_folder() as folder:
        path = folder / f"model.{request.format}"
        write = WRITERS[request.format]
        meta = write(load_model(checkpoint).eval(), _description(request, checkpoint), path)
        content = path.read_bytes()
        # Read back as other programs will.
        report = _compare_logits(request, checkpoint, load_checkpoint(path), split, target, session)
    _refuse_difference(report)
    description = sidecar_path(target)
    # An old description goes first: after a kill between the two writes it would contradict the new file.
    with suppress(OSError):  # the next line reports what is wrong with the folder
        description.unlink()
    write_atomically(target, content)
    write_atomically(description, meta.model_dump_json(indent=2).encode() + b"\n")
    return report


def _description(request: ExportRequest, checkpoint: Checkpoint) -> ExportMeta:
    """The description of an exported checkpoint, without the digest of the file's content."""
    meta = checkpoint.meta
    data = meta.recipe.data
    return ExportMeta(
        class_names=meta.class_names,
        num_old=meta.num_old,
        split_fingerprint=meta.split_fingerprint,
        checkpoint=checkpoint.digest,
        preprocessing=Preprocessing(
            exif=data.exif,
            resize=data.resized_side,
            interpolation=data.interpolation,
            crop=data.image_size,
            mean=data.mean,
            std=data.std,
            inside=request.with_preprocessing,
        ),
        model=meta.recipe.model.model_copy(update={"pretrained": None}).model_dump(mode="json"),
        content="",
    )


def _compare_logits(
    request: ExportRequest,
    checkpoint: Checkpoint,
    export: Checkpoint,
    split: Split,
    target: Path,
    session: Session,
) -> ExportReport:
    """Compare checkpoint and export on the validation pictures, on the CPU, in one pass over them.

    Args:
        request: the tolerance, for the report.
        checkpoint: that was exported.
        export: the exported file, read back.
        split: of the pictures.
        target: the path to be written, for the report.
        session: of the pass.

    Raises:
        NonFiniteError: logits of the export are not finite.
    """
    # The file has only a part of the data recipe. With the checkpoint's whole one both see the same pictures.
    data = checkpoint.meta.recipe.data
    for field in ("image_size", "mean", "std"):
        assert getattr(export.meta.recipe.data, field) == getattr(data, field)
    recipe = export.meta.recipe.model_copy(update={"data": data})
    meta = export.meta.model_copy(update={"recipe": recipe})
    models = {"checkpoint": checkpoint, "export": replace(export, meta=meta)}
    logits = compute_outputs(models, split, replace(session, device="cpu"), part="val")
    before, after = logits["checkpoint"], logits["export"]
    not_finite = int((~np.isfinite(after)).any(axis=1).sum())
    if not_finite:
        raise NonFiniteError(
            f"{target.name}: {not_finite} of {len(after)} predictions are not finite; not written; "
            "take another --format"
        )
    predicted_before, predicted_after = before.argmax(axis=1), after.argmax(axis=1)
    labels = split.labels[split.indices("val")]
    truth = label_map(split.classes.names, checkpoint.meta.class_names)[labels]
    counts = flip_counts(predicted_before == truth, predicted_after == truth)
    return ExportReport(
        run=str(checkpoint.path),
        file=str(target),
        described=str(sidecar_path(target)),
        format=request.format,
        bytes=export.path.stat().st_size,
        pictures=len(truth),
        max_difference=float(np.abs(before.astype(np.float64) - after).max()),
        tolerance=request.tolerance,
        answers_differ=int((predicted_before != predicted_after).sum()),
        right_before=counts.old_right,
        right_after=counts.total - counts.new_wrong,
        negative_flips=counts.negative_flips,
        positive_flips=counts.positive_flips,
    )


def _refuse_difference(report: ExportReport) -> None:
    """Raise GateFailed if logits differ by more than the report's tolerance."""
    if not report.max_difference <= report.tolerance:
        raise GateFailed(
            f"{report.file}: not written: logits differ by up to {report.max_difference:.3g} from the "
            f"checkpoint's, --tolerance is {report.tolerance:g}; {report.answers_differ} of "
            f"{report.pictures} predictions differ"
        )
