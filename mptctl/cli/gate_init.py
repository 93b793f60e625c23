"""`mptctl gate init`: compare two models, and write a gate whose limits they just keep."""

from __future__ import annotations

import typer

from mptctl.cli.asked_comparison import read_comparison, with_models
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.errors import DataError, UsageError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.evaluate_request import GateInitRequest
from mptctl.evaluation.gate.draft import draft_gate_file
from mptctl.evaluation.gate.rules import today_in_utc
from mptctl.evaluation.pairing.confusion import LIKELY_CAUSE
from mptctl.evaluation.pairing.sanity import IDENTICAL, never_right_sentence
from mptctl.evaluation.reading.workspace import workspace
from mptctl.files import writing
from mptctl.inference.named_models import load_predictions
from mptctl.report.media.progress_bars import showing_progress


def write_gate_file(asked: GateInitRequest) -> None:
    """Compare two models, write a gate file whose limits they just keep, and print its path.

    Raises:
        UsageError: the file exists, --metadata is given without --by, or both models are the same.
        DataError: the old model is never right, no better than chance, or has exchanged class names.
        MptctlError: as `load_predictions` and `compare`.
    """
    old, new, out = asked.old, asked.new, asked.out
    if asked.metadata is not None and not asked.by:
        raise UsageError("--metadata: is for --by; name a column of it, such as --by country")
    if out.is_file() and out.stat().st_size:
        raise UsageError(f"--out {out}: is there already; edit it, or name another file")
    Outputs().add_file("--out", out).check([*files_read_for([old, new], asked.run_root), *asked.files])
    question = read_comparison(asked)
    with showing_progress(asked.session) as session, workspace():
        found = load_predictions({"old": old, "new": new}, session, part="test", renamed=question.renamed)
        report = compare(found.models["old"], found.models["new"], with_models(question, found))
    if report.identical:
        raise UsageError(f"{new}: {IDENTICAL}, and its limits would be nobody's; name the replacement as NEW")
    if not report.counts.old_right:
        raise DataError(f"{old}: {never_right_sentence(report.counts)}; {LIKELY_CAUSE}")
    for fault in report.old_faults:
        raise DataError(f"{old}: {fault.message}")
    with writing(out) as stream:
        stream.write(draft_gate_file(report, today_in_utc(), question.old_classes).encode())
    typer.echo(f"wrote {out}", err=True)
