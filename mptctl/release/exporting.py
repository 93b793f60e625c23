"""From a trained run to a file that other programs run, written only if it answers as the checkpoint does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from mptctl.data.classes import label_map
from mptctl.data.pictures import Normalisation, channels_first, resize_and_crop
from mptctl.data.split import Split
from mptctl.errors import DataError, GateFailed, NonFiniteError, UsageError
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.files import Model, output_file, scratch_folder, write_atomically
from mptctl.inference.own_models import named_checkpoints
from mptctl.inference.predict import compute_outputs, load_onto
from mptctl.models.checkpoint import Checkpoint, load_checkpoint, load_model
from mptctl.models.export_meta import ExportMeta, Preprocessing, sidecar
from mptctl.models.programs import PROGRAMS
from mptctl.names import ExportFormat, Quantization, Session
from mptctl.recipe import DataRecipe
from mptctl.release.export_formats import FORMATS, ToWrite
from mptctl.release.new_run import refuse_unfit

# Largest difference of two logits. Two programs that add the same float32 numbers in another order were seen
# to differ by far less; a wrong normalisation or a layer in training mode by far more.
TOLERANCE = 1e-3
# Training pictures by which int8 chooses its ranges.
CALIBRATION = 256


class ExportReport(Model):
    """The export, and the differences of its predictions from the checkpoint's on validation pictures."""

    run: str = Field(description="the checkpoint")
    file: str = Field(description="what was written")
    described: str = Field(description="the JSON beside it: classes, pictures, split")
    format: ExportFormat = Field(description="of the file")
    quantized: Quantization | None = Field(description="to what its numbers were rounded")
    bytes: int = Field(description="size of the file")
    pictures: int = Field(description="validation pictures that both answered")
    max_difference: float = Field(description="largest difference of two logits")
    tolerance: float | None = Field(description="that it was to keep; null where none was set")
    answers_differ: int = Field(description="pictures that the two answer differently")
    right_before: int = Field(description="pictures that the checkpoint answers right")
    right_after: int = Field(description="pictures that the export answers right")
    negative_flips: int = Field(description="right before, wrong after")
    positive_flips: int = Field(description="wrong before, right after")


@dataclass(frozen=True)
class ExportRequest:
    """An export that somebody asked for.

    Attributes:
        run: the run: its name, its folder or a checkpoint of it.
        format: of the file.
        out: where it goes; None: beside the checkpoint.
        with_preprocessing: mean, deviation and the order of dimensions go into the graph.
        tolerance: largest difference of two logits; None: `TOLERANCE`, and none where numbers are rounded.
        quantize: round the numbers.
    """

    run: str
    format: ExportFormat
    out: Path | None = None
    with_preprocessing: bool = False
    tolerance: float | None = None
    quantize: Quantization | None = None

    def file(self, checkpoint: Path) -> Path:
        """The path that the export of a checkpoint goes to."""
        if self.out is not None:
            return self.out.expanduser()
        rounded = f"-{self.quantize}" if self.quantize else ""
        return checkpoint.with_name(f"{checkpoint.stem}{rounded}.{self.format}")


def refuse_contradictions(request: ExportRequest) -> None:
    """Raise UsageError where flags do not go together; nothing is read."""
    if request.format != "onnx" and (request.quantize or request.with_preprocessing):
        flag = "--quantize" if request.quantize else "--with-preprocessing"
        raise UsageError(f"{flag}: is for --format onnx, not {request.format}; name that")
    if request.out is not None and request.out.suffix.lower() != f".{request.format}":
        raise UsageError(
            f"--out {request.out}: --format {request.format} wants the ending .{request.format}; name one"
        )
    if request.tolerance is not None and not 0 <= request.tolerance < float("inf"):
        raise UsageError(f"--tolerance {request.tolerance:g}: must be a number from 0 on")


def export(request: ExportRequest, session: Session) -> ExportReport:
    """Write a run's model for other programs, if it answers the validation pictures as the checkpoint does.

    Args:
        request: what was asked for.
        session: where runs and the split are; both models compute on the CPU.

    Raises:
        UsageError: flags that do not go together, a format whose packages are not installed, a network that
            cannot be exported, no validation part, or a run that is not finished.
        CheckpointError: no such run, or one of another split.
        GateFailed: the answers differ by more than the tolerance; nothing is written.
        NonFiniteError: the export answers NaN; nothing is written.
        StorageError: it cannot be written.
    """
    refuse_contradictions(request)
    checkpoints, split = named_checkpoints([request.run], session)
    checkpoint = checkpoints[request.run]
    if checkpoint.meta.recipe.model.arch in PROGRAMS:
        raise UsageError(f"{checkpoint.path}: is a program already; export the run that it was made from")
    refuse_unfit(checkpoint, split)
    target = output_file(request.file(checkpoint.path))
    with scratch_folder() as folder:
        made = folder / f"model.{request.format}"
        written = _write(request, checkpoint, split, load_model(checkpoint).eval(), made)
        report = _compare(request, checkpoint, written, split, target, session)
    content, meta = written.content, written.meta
    _refuse_difference(report)
    described = sidecar(target)
    # First without the description, which would contradict the new file if a kill came between the two.
    with suppress(OSError):  # whatever is wrong with the folder is said by the next line
        described.unlink()
    write_atomically(target, content)
    write_atomically(described, meta.model_dump_json(indent=2).encode() + b"\n")
    return report.model_copy(update={"bytes": len(content)})


@dataclass(frozen=True)
class _Written:
    """An exported model, before it goes to where it was asked for.

    Attributes:
        content: of the file.
        meta: what it says of itself.
        program: the network that torch makes of it, of a format that is not read; else None.
        checkpoint: the file read back; of a format that is not read, the checkpoint that was exported.
    """

    content: bytes
    meta: ExportMeta
    checkpoint: Checkpoint
    program: nn.Module | None = None

    def network(self, device: torch.device) -> nn.Module:
        """The network that answers as the file does."""
        return load_onto(self.checkpoint, device) if self.program is None else self.program


def _write(
    request: ExportRequest, checkpoint: Checkpoint, split: Split, model: nn.Module, path: Path
) -> _Written:
    """Write a network to a path, and read it back as other programs will."""
    meta, data = checkpoint.meta, checkpoint.meta.recipe.data

    def describe(content_digest: str) -> ExportMeta:
        return ExportMeta(
            class_names=meta.class_names,
            num_old=meta.num_old,
            split_fingerprint=meta.split_fingerprint,
            checkpoint=checkpoint.digest,
            preprocessing=Preprocessing(
                resize=data.resized_side,
                interpolation=data.interpolation,
                crop=data.image_size,
                mean=data.mean,
                std=data.std,
                inside=request.with_preprocessing,
            ),
            model=meta.recipe.model.model_copy(update={"pretrained": None}).model_dump(mode="json"),
            quantized=request.quantize,
            content=content_digest,
        )

    form = FORMATS[request.format]
    pictures = _calibration(split, data) if request.quantize == "int8" else None
    written_meta = form.write(ToWrite(model, data.image_size, describe, path, pictures))
    content = path.read_bytes()
    if form.load is None:  # a format that `load_checkpoint` reads
        return _Written(content, written_meta, load_checkpoint(path))
    return _Written(content, written_meta, replace(checkpoint, path=path), form.load(content))


def _calibration(split: Split, data: DataRecipe) -> Tensor:
    """(n, 3, S, S) training pictures, evenly from the whole part, as evaluation sees them."""
    rows = split.indices("train")
    if not len(rows):
        raise DataError(
            "the split has no train picture, by which int8 chooses its ranges; use --quantize fp16"
        )
    chosen = rows[np.linspace(0, len(rows) - 1, min(CALIBRATION, len(rows))).astype(np.int64)]
    size = data.image_size
    cut = [
        resize_and_crop(
            torch.from_numpy(split.picture(int(row))), data.resized_side, size, data.interpolation
        )
        for row in chosen
    ]
    return channels_first(Normalisation(data, torch.device("cpu"))(torch.stack(cut)))


def _compare(
    request: ExportRequest,
    checkpoint: Checkpoint,
    written: _Written,
    split: Split,
    target: Path,
    session: Session,
) -> ExportReport:
    """Compare the answers of checkpoint and export to the validation pictures, on the CPU, in one pass."""
    # A file holds of the recipe for data only what programs need. With the whole one, the checkpoint's, both
    # see the same pictures.
    recipe, data = written.checkpoint.meta.recipe, checkpoint.meta.recipe.data
    assert (recipe.data.image_size, recipe.data.mean, recipe.data.std) == (
        data.image_size,
        data.mean,
        data.std,
    )
    meta = written.checkpoint.meta.model_copy(update={"recipe": recipe.model_copy(update={"data": data})})
    export = replace(written.checkpoint, meta=meta)

    def load(which: Checkpoint, device: torch.device) -> nn.Module:
        return written.network(device) if which is export else load_onto(which, device)

    models = {"checkpoint": checkpoint, "export": export}
    logits = compute_outputs(models, split, replace(session, device="cpu"), part="val", load=load)
    before, after = logits["checkpoint"], logits["export"]
    if bad := int((~np.isfinite(after)).any(axis=1).sum()):
        raise NonFiniteError(
            f"{target.name}: {bad} of {len(after)} predictions are not finite; not written; export without "
            "--quantize"
        )
    answers_before, answers_after = before.argmax(axis=1), after.argmax(axis=1)
    truth = label_map(split.classes.names, checkpoint.meta.class_names)[split.labels[split.indices("val")]]
    counts = flip_counts(answers_before == truth, answers_after == truth)
    tolerance = request.tolerance
    if tolerance is None and request.quantize is None:
        tolerance = TOLERANCE
    return ExportReport(
        run=str(checkpoint.path),
        file=str(target),
        described=str(sidecar(target)),
        format=request.format,
        quantized=request.quantize,
        bytes=0,
        pictures=len(truth),
        max_difference=_largest_difference(before, after),
        tolerance=tolerance,
        answers_differ=int((answers_before != answers_after).sum()),
        right_before=counts.old_right,
        right_after=counts.total - counts.new_wrong,
        negative_flips=counts.negative_flips,
        positive_flips=counts.positive_flips,
    )


def _largest_difference(before: NDArray[np.float32], after: NDArray[np.float32]) -> float:
    return float(np.abs(before.astype(np.float64) - after).max())


def _refuse_difference(report: ExportReport) -> None:
    if report.tolerance is not None and not report.max_difference <= report.tolerance:
        raise GateFailed(
            f"{report.file}: not written: logits differ by up to {report.max_difference:.3g} from the "
            f"checkpoint's, --tolerance is {report.tolerance:g}; {report.answers_differ} of "
            f"{report.pictures} predictions differ"
        )
