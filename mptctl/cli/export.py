"""`mptctl export`: a model for other programs, written only if it predicts as the checkpoint does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import ExportFormat, Session


@prints({"--json": "mptctl.release.exporting:ExportReport"})
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The model: run name, run folder or .pt file.")],
    format_: Annotated[ExportFormat, typer.Option("--format", help="ONNX, or weights alone.")],
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
        float, typer.Option("--tolerance", metavar="X", help="Largest difference of two logits.")
    ] = 1e-3,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    as_json: opt.Json = False,
) -> None:
    """Write a model as ONNX or safetensors.

    The file is compared with the checkpoint on validation pictures before it is written: where a logit
    differs by more than --tolerance, nothing is written and the exit code is 3. Class names, preprocessing
    and the split's fingerprint stand in the file, and in FILE.json beside it.

    Examples:

        mptctl export mpt-kl --format onnx

        mptctl export mpt-kl --format onnx --out mpt-kl.onnx
    """
    from mptctl.models.run_folder import find_checkpoint

    checkpoint = find_checkpoint(run, run_root)  # said before torch is imported, which takes seconds
    from mptctl.cli.runners.export import export_and_show
    from mptctl.release.exporting import ExportRequest

    request = ExportRequest(run, format_, out, with_preprocessing, tolerance)
    export_and_show(request, checkpoint, Session(run_root, data_root=data_root), as_json=as_json)
