"""`mptctl evaluate MODEL`: one model by itself, its accuracy and its calibration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mptctl.cli.show import show
from mptctl.names import Session

if TYPE_CHECKING:
    from mptctl.evaluation.reading.predictions import Predictions

PANEL = "One model alone"
Temperature = Literal["fit"]
Fit = Annotated[
    Temperature | None,
    typer.Option(
        "--temperature",
        help="One model: fit a temperature on the validation part, and show figures with it.",
        rich_help_panel=PANEL,
    ),
]
Validation = Annotated[
    str | None,
    typer.Option(
        "--validation",
        metavar="FILE",
        help="Predictions to fit the temperature on; default: those of the run's validation part.",
        rich_help_panel=PANEL,
    ),
]


def evaluate_one(
    model: str,
    session: Session,
    *,
    temperature: Temperature | None,
    validation: str | None,
    as_json: bool,
    report: Path | None,
    full: bool = False,
) -> None:
    """Measure one model, and show it.

    Args:
        model: run name, run folder, .pt file or predictions file.
        session: where runs and the split are, and where models compute.
        temperature: whether to fit one.
        validation: predictions to fit it on; None: the run's own validation part.
        as_json: print JSON.
        report: where one HTML page is written.
        full: print the bins of confidence too.

    Raises:
        UsageError: a temperature that there is nothing to fit on, or a validation part without a temperature.
    """
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.errors import UsageError
    from mptctl.evaluation.calibration.report import measure_calibration
    from mptctl.evaluation.reading.readers import is_predictions_file
    from mptctl.files.output_kinds import HTML
    from mptctl.inference.named_models import load_predictions
    from mptctl.report.media.progress_bars import showing_progress

    if validation is not None and temperature is None:
        raise UsageError("--validation: is what --temperature fit is fitted on; give both")
    if temperature is not None and validation is None and is_predictions_file(Path(model).expanduser()):
        raise UsageError(
            f"--temperature fit: {model} holds no validation part; name a predictions file of held-out samples with "
            "--validation FILE"
        )
    outputs = Outputs()
    outputs.file("--report", report, HTML)
    outputs.check(read_for_models([model, validation], session.run_root), prints=as_json)
    held_out: Predictions | None = None
    with showing_progress(session) as session:
        found = load_predictions({"model": model}, session, part="test")
        if temperature is not None:
            named = load_predictions({"model": validation or model}, session, part="val")
            held_out = named.models["model"]
    result = measure_calibration(found.models["model"], held_out, found.warnings)
    if report is not None:
        from mptctl.files import writing
        from mptctl.report.documents.calibration import calibration_document
        from mptctl.report.media.page import render_document
        from mptctl.report.media.provenance import Gathering

        with writing(report) as stream:
            sources = Gathering(found, sys.argv).finish()
            stream.write(render_document(calibration_document(result), sources).encode())
        typer.echo(f"wrote {report}", err=True)
    show(result, "calibration:calibration_document", full, as_json=as_json)
