"""`mptctl export`: a model for other programs, written only if it answers as the checkpoint does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import ExportFormat, Quantization, Session

if TYPE_CHECKING:
    from mptctl.release.exporting import ExportReport


@prints({"--json": "mptctl.release.exporting:ExportReport"})
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The model: run name, run folder or .pt file.")],
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="ONNX, a program of torch.export, or weights alone.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where it goes. (default: beside the run's best.pt)"),
    ] = None,
    with_preprocessing: Annotated[
        bool,
        typer.Option(
            "--with-preprocessing",
            help="ONNX: it takes decoded pictures, (B, S, S, 3) uint8, and normalises them.",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="X",
            help="Largest difference of two logits. (default: 0.001; with --quantize none)",
        ),
    ] = None,
    quantize: Annotated[
        Quantization | None,
        typer.Option("--quantize", help="ONNX: round the numbers, and count what that flips."),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    as_json: opt.Json = False,
) -> None:
    """Write a model as ONNX, torch.export or safetensors.

    The file is compared with the checkpoint on validation pictures before it is written: where a logit
    differs by more than --tolerance, nothing is written and the exit code is 3. Class names, preprocessing
    and the split's fingerprint stand in the file, and in FILE.json beside it.

    Examples:

        mptctl export mpt-kl --format onnx

        mptctl export mpt-kl --format onnx --quantize int8 --out mpt-kl-int8.onnx
    """
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.models.run_folder import find_checkpoint

    checkpoint = find_checkpoint(run, run_root)  # said before torch is imported
    from mptctl.models.export_meta import sidecar
    from mptctl.release.export_formats import DESCRIPTION, export_kind
    from mptctl.release.exporting import ExportRequest, refuse_contradictions
    from mptctl.release.exporting import export as export_run
    from mptctl.report.media.progress_bars import showing_progress

    request = ExportRequest(run, format_, out, with_preprocessing, tolerance, quantize)
    refuse_contradictions(request)
    file = request.file(checkpoint)
    outputs = Outputs()
    outputs.file("--out", file, export_kind(format_))
    outputs.file("--out", sidecar(file), DESCRIPTION)
    outputs.check(read_for_models([run], run_root), prints=as_json)
    with showing_progress(Session(run_root, data_root=data_root)) as session:
        report = export_run(request, session)
    if as_json:
        typer.echo(report.model_dump_json())
        return
    for line in _describe(report):
        typer.echo(line)
    typer.echo(report.file)


def _describe(report: ExportReport) -> list[str]:
    """The differences of the export from the checkpoint, for people."""
    within = "" if report.tolerance is None else f" (tolerance {report.tolerance:g})"
    lines = [
        f"{report.pictures:,} validation pictures: logits differ by up to "
        f"{report.max_difference:.3g}{within}, {report.answers_differ:,} predictions differ",
    ]
    if report.answers_differ or report.quantized:
        lines.append(
            f"{report.negative_flips:,} of {report.right_before:,} right predictions turned wrong, "
            f"{report.positive_flips:,} wrong ones right; before a release: mptctl evaluate {report.run} "
            f"{report.file} --max-nfr PCT"
        )
    return [*lines, f"{report.bytes / 1e6:.2f} MB, described by {report.described}"]
