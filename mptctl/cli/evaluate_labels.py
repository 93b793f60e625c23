"""`mptctl evaluate OLD NEW --labels FILE`: what labels of drawn rows say of all traffic, and its gate."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mptctl.cli.evaluate_files import add_to_history, errors_written_to, read_files, without_repeated_verdict
from mptctl.cli.show import show
from mptctl.cli.streams import write_commands
from mptctl.errors import UsageError
from mptctl.evaluation.evaluate_request import EvaluateRequest, LabelSettings
from mptctl.evaluation.gate.gate_file import read_gate_file
from mptctl.evaluation.gate.rules import today_in_utc
from mptctl.evaluation.labels.draw import read_traffic
from mptctl.evaluation.labels.label_file import match_labels, read_label_file, redraw
from mptctl.evaluation.labels.report import LabelledReport, make_look, report_labels
from mptctl.evaluation.labels.slices import read_groups
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.workspace import parse_memory_limit, workspace
from mptctl.evaluation.slices.ranking import slice_columns
from mptctl.files.request import ModelRequest
from mptctl.inference.named_models import load_traffic
from mptctl.report.documents.ci import render_github, render_junit
from mptctl.report.documents.labels import labelled_document, labelled_markdown, verdict_of_labels
from mptctl.report.media.progress_bars import showing_progress

# Settings that go with --labels.
TAKEN = {
    *LabelSettings.model_fields,
    *ModelRequest.model_fields,
    *("old", "news", "data_root", "memory_limit", "confidence", "looks", "by", "metadata"),
    *("as_json", "report", "markdown", "junit", "github", "append_history", "tag", "gate_file"),
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
        if name in asked.model_fields_set - TAKEN:
            raise UsageError(
                f"{asked.flag_names(name)[0]}: labels of rows whose predictions differ cannot decide or show "
                "it; limit --max-flip-rate, or evaluate a test set with labels"
            )
    if asked.metadata is not None and not asked.by:
        raise UsageError("--metadata: is for --by; name a column of it, such as --by country")
    rules = Limits(confidence=asked.confidence, looks=asked.looks)
    percent = asked.max_flip_rate
    warnings: list[str] = []
    if asked.gate_file is not None:
        gate_file = read_gate_file(asked.gate_file)
        warnings = gate_file.overruled(rules, percent)
        rules, percent = gate_file.merged_for_labels(rules, percent)
    rules = rules.model_copy(update={"confidence": rules.confidence or 0.95})
    limit = None if percent is None else percent / 100
    if limit is None and asked.confidence is not None:
        raise UsageError(
            f"--confidence {asked.confidence:g}: says how sure a limit must be; give one, such as "
            "--max-flip-rate 2"
        )
    keys = slice_columns(asked.by)
    label_file = Path(str(asked.labels))
    files = read_files(asked, [asked.old, *asked.news])
    memory = parse_memory_limit(asked.memory_limit)
    with errors_written_to(files), showing_progress(asked.session) as session, workspace(memory):
        rows = read_label_file(label_file)
        models = load_traffic({"old": asked.old, "new": asked.news[0]}, asked.pictures, session)
        traffic = read_traffic(models["old"], models["new"])
        outcomes = match_labels(redraw(traffic, label_file, rows), rows)
        report = report_labels(outcomes, limit, rules, read_groups(traffic, keys, asked.metadata), warnings)
    texts = {
        "page": lambda: _page(asked, report),
        "markdown": lambda: labelled_markdown(report),
        "junit": lambda: render_junit(report),
    }
    for path in files.write_texts(texts):
        typer.echo(f"wrote {path}", err=True)
    add_to_history(asked, lambda tag: make_look(report, today_in_utc(), tag))
    if asked.github:
        write_commands(render_github(report, verdict_of_labels(report)))
    if asked.markdown == "-":
        typer.echo(labelled_markdown(report), nl=False)
    else:
        show(report, labelled_document, as_json=asked.as_json)
    with without_repeated_verdict(on_screen=not (asked.as_json or asked.markdown == "-")):
        report.gate.require_passed()


def _page(asked: EvaluateRequest, report: LabelledReport) -> str:
    """The HTML page of the report, with the digests of the files that it is made from."""
    from mptctl.report.media.page import render_document
    from mptctl.report.media.provenance import digest_of_files, provenance

    named = {"labels": str(asked.labels), "old": asked.old, "new": asked.news[0]}
    digests = {f"{role}: {name}": digest_of_files(name) for role, name in named.items()}
    return render_document(labelled_document(report), provenance(sys.argv, digests))
