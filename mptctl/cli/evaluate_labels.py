"""`mptctl evaluate OLD NEW --labels FILE`: what labels of drawn rows say of all traffic, and its gate."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.cli.streams import outputs_are_one, write_commands
from mptctl.errors import GateFailed, UsageError
from mptctl.evaluation.evaluate_request import EvaluateRequest
from mptctl.evaluation.labels.draw import read_traffic
from mptctl.evaluation.labels.label_file import match_labels, read_label_file, redraw
from mptctl.evaluation.labels.report import LabelledReport, report_labels
from mptctl.evaluation.labels.slices import read_groups
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.workspace import parse_size, workspace
from mptctl.evaluation.slices.ranking import slice_columns
from mptctl.files import FilesTogether
from mptctl.inference.traffic import load_traffic
from mptctl.report.documents.labels import labelled_document, labelled_markdown, verdict_of_labels
from mptctl.report.media.progress_bars import showing_progress

# Settings that go with --labels.
TAKEN = {
    "old",
    "news",
    "run_root",
    "data_root",
    "device",
    "as_json",
    "report",
    "markdown",
    "junit",
    "github",
} | {
    *(
        "labels",
        "max_flip_rate",
        "pictures",
        "confidence",
        "looks",
        "undecided",
        "by",
        "metadata",
        "memory_limit",
    )
}


def evaluate_labels(asked: EvaluateRequest) -> None:
    """Report what labels say of all traffic; write the files that are asked for, and gate the release.

    Raises:
        UsageError: a setting that labels of disagreements cannot decide or show.
        DataError: labels or predictions that cannot be used.
        GateFailed: the gate did not pass.
        typer.Exit: in its place, where the verdict has just been printed on the same screen.
    """
    for name in EvaluateRequest.model_fields:
        if name in asked.model_fields_set and name not in TAKEN:
            raise UsageError(
                f"{asked.flag_names(name)[0]}: labels of rows whose predictions differ cannot decide or "
                "show it; "
                "limit --max-flip-rate, or evaluate a test set with labels"
            )
    rules = Limits(confidence=asked.confidence or 0.95, undecided=asked.undecided, looks=asked.looks)
    limit = None if asked.max_flip_rate is None else asked.max_flip_rate / 100
    keys = slice_columns(asked.by)
    markdown = None if asked.markdown in (None, "-") else Path(str(asked.markdown))
    if asked.as_json and asked.markdown == "-":
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    outputs = Outputs()
    outputs.add_file("--report", asked.report, PAGE)
    outputs.add_file("--markdown", markdown)
    outputs.add_file("--junit", asked.junit)
    named = [path for path in (asked.labels, asked.metadata) if path is not None]
    outputs.check([*files_read_for([asked.old, *asked.news], asked.run_root), *named])
    memory = None if asked.memory_limit is None else parse_size(asked.memory_limit, "--memory-limit")
    with showing_progress(asked.session) as session, workspace(memory):
        labels = read_label_file(named[0])
        models = load_traffic({"old": asked.old, "new": asked.news[0]}, asked.pictures, session)
        traffic = read_traffic(models["old"], models["new"])
        outcomes = match_labels(redraw(traffic, labels), labels.rows)
        report = report_labels(outcomes, limit, rules, read_groups(traffic, keys, asked.metadata))
    _write(asked, markdown, report)
    if asked.github:
        from mptctl.report.documents.ci import render_github

        write_commands(render_github(report, verdict_of_labels(report)))
    if asked.markdown == "-" and not asked.as_json:
        typer.echo(labelled_markdown(report), nl=False)
    else:
        show(report, "labels:labelled_document", as_json=asked.as_json)
    try:
        report.gate.require_passed()
    except GateFailed as error:
        if not asked.as_json and asked.markdown != "-" and outputs_are_one():
            raise typer.Exit(error.exit_code) from error
        raise


def _write(asked: EvaluateRequest, markdown: Path | None, report: LabelledReport) -> None:
    """Write the files that are asked for, all or none, and print their paths."""
    texts: dict[Path, str] = {}
    if asked.report is not None:
        from mptctl.report.media.page import render_document
        from mptctl.report.media.provenance import digest_of_files, provenance

        files = {"labels": str(asked.labels)} | {"old": asked.old, "new": asked.news[0]}
        digests = {f"{role}: {name}": digest_of_files(name) for role, name in files.items()}
        texts[asked.report] = render_document(labelled_document(report), provenance(sys.argv, digests))
    if markdown is not None:
        texts[markdown] = labelled_markdown(report)
    if asked.junit is not None:
        from mptctl.report.documents.ci import render_junit

        texts[asked.junit] = render_junit(report)
    with FilesTogether() as files_together:
        for path, text in texts.items():
            with files_together.open(path) as stream:
                stream.write(text.encode())
    for path in texts:
        typer.echo(f"wrote {path}", err=True)
