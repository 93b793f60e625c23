"""The work of `mptctl evaluate MODEL`: measure the accuracy and the calibration of one model."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mptctl.cli.evaluate_flags import EvaluateFlags
from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.evaluation.calibration.report import measure_calibration
from mptctl.evaluation.reading.readers import is_predictions_file
from mptctl.files import writing
from mptctl.inference.named_models import load_predictions
from mptctl.names import Session
from mptctl.report.documents.calibration import calibration_document
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.provenance import digests_of_models, provenance


def evaluate_one(model: str, flags: EvaluateFlags) -> None:
    """Measure one model, write its page if a flag names one, and print the result.

    Args:
        model: run name, run folder, .pt file or predictions file.
        flags: those for one model alone, and those for any number.

    Raises:
        UsageError: --temperature without anything to fit it on, --validation without --temperature, or a page
            that would destroy something.
        MptctlError: the model cannot be used.
    """
    fits_temperature, validation = flags.alone.temperature is not None, flags.alone.validation
    if validation is not None and not fits_temperature:
        raise UsageError("--validation: is what --temperature fit is fitted on; give both")
    if fits_temperature and validation is None and is_predictions_file(Path(model).expanduser()):
        raise UsageError(
            f"--temperature fit: {model} holds no validation part; name a predictions file of held-out "
            "samples with --validation FILE"
        )
    report = flags.output.report
    outputs = Outputs()
    outputs.add_file("--report", report, PAGE)
    outputs.check(files_read_for([model, validation], flags.run_root))
    held_out = None
    with showing_progress(Session(flags.run_root, flags.device, data_root=flags.data_root)) as session:
        loaded = load_predictions({"model": model}, session, part="test")
        if fits_temperature:
            loaded_validation = load_predictions({"model": validation or model}, session, part="val")
            held_out = loaded_validation.models["model"]
    result = measure_calibration(loaded.models["model"], held_out, loaded.warnings)
    if report is not None:
        from mptctl.report.media.page import render_document

        with writing(report) as stream:
            sources = provenance(sys.argv, digests_of_models(loaded))
            stream.write(render_document(calibration_document(result), sources).encode())
        typer.echo(f"wrote {report}", err=True)
    show(result, "calibration:calibration_document", flags.output.full, as_json=flags.as_json)
