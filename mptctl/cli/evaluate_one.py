"""`mptctl evaluate MODEL`: measure the accuracy and the calibration of one model."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.evaluation.calibration.report import measure_calibration
from mptctl.evaluation.evaluate_request import EvaluateRequest
from mptctl.evaluation.reading.readers import is_predictions_file
from mptctl.files import writing
from mptctl.inference.named_models import load_predictions
from mptctl.report.documents.calibration import calibration_document
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.provenance import digests_of_models, provenance


def evaluate_one(asked: EvaluateRequest) -> None:
    """Measure one model, write its page if one is asked for, and print the result.

    Raises:
        UsageError: nothing to fit a temperature on, or a page that would destroy something.
        MptctlError: the model cannot be used.
    """
    model = asked.old
    report = asked.report
    held_out_model = model if asked.temperature == "fit" else asked.temperature
    if asked.temperature == "fit" and is_predictions_file(Path(model).expanduser()):
        raise UsageError(
            f"--temperature fit: {model} holds no validation part; name a predictions file of held-out "
            "samples with --temperature FILE"
        )
    read = files_read_for([model, held_out_model], asked.run_root)
    Outputs().add_file("--report", report, PAGE).check(read)
    held_out = None
    with showing_progress(asked.session) as session:
        loaded = load_predictions({"model": model}, session, part="test")
        if held_out_model is not None:
            held_out = load_predictions({"model": held_out_model}, session, part="val").models["model"]
    result = measure_calibration(loaded.models["model"], held_out, loaded.warnings)
    if report is not None:
        from mptctl.report.media.page import render_document

        with writing(report) as stream:
            sources = provenance(sys.argv, digests_of_models(loaded))
            stream.write(render_document(calibration_document(result), sources).encode())
        typer.echo(f"wrote {report}", err=True)
    show(result, lambda result: calibration_document(result, asked.full), as_json=asked.as_json)
