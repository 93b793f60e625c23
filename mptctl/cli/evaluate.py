"""`mptctl evaluate`: compare a model with its replacements, and gate their release."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import typer

from mptctl.cli.asked_comparison import read_comparison, with_models
from mptctl.cli.evaluate_files import add_to_history, errors_written_to, read_files, without_repeated_verdict
from mptctl.cli.evaluate_one import evaluate_one
from mptctl.cli.show import show
from mptctl.cli.streams import write_commands
from mptctl.errors import GateFailed, UsageError, some
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.evaluate_request import AloneSettings, EvaluateRequest, OutputSettings
from mptctl.evaluation.flip_report import SHOWN_FLIPS, FlipReport, FlipReports
from mptctl.evaluation.gate.gate_file import GateFile, read_gate_file
from mptctl.evaluation.gate.history import make_release
from mptctl.evaluation.limits import LIMITS, Limits
from mptctl.evaluation.reading.workspace import parse_memory_limit, workspace
from mptctl.inference.named_models import NamedModels, load_updates
from mptctl.machine.signals import stopped_with
from mptctl.report.documents.class_names import with_class_names
from mptctl.report.documents.flip_list import MOST_FLIPS
from mptctl.report.documents.flips import flips_document, screen_document
from mptctl.report.documents.flips_files import FlipFiles
from mptctl.report.documents.updates import updates_document
from mptctl.report.media.document import Document
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.provenance import digests_of_models, provenance

# Settings that one model alone has too; all others need NEW.
ALSO_ALONE = {"old", "news", "run_root", "data_root", "as_json", "report", "device", "full"}
# Settings that only one model alone has.
ONLY_ALONE = set(AloneSettings.model_fields)
# Settings that need --labels.
ONLY_WITH_LABELS = {"max_flip_rate", "pictures"}
# Settings that do not go with several NEW.
ONLY_ONE_UPDATE = {"labels", *OutputSettings.model_fields}


def evaluate(asked: EvaluateRequest) -> None:
    """Measure one model, or compare the model in production with each of its replacements.

    Writes and prints the comparisons.

    Raises:
        GateFailed: a gate did not pass; raised last, once all is written and printed.
        Stopped: a signal came.
        MptctlError: a setting, a file or a model cannot be used.
        typer.Exit: in place of GateFailed, where the verdict has just been printed on the same screen.
    """
    _refuse_misplaced(asked)
    if not asked.news:
        evaluate_one(asked)
    elif asked.labels is not None:
        from mptctl.cli.evaluate_labels import evaluate_labels

        evaluate_labels(asked)
    else:
        reports = _compare_with_each(asked)
        if len(reports) > 1:
            _show_and_gate_all(reports, asked.as_json)
        else:
            _show_and_gate(reports[asked.news[0]], asked)


def _refuse_misplaced(asked: EvaluateRequest) -> None:
    """Refuse a setting that was given and does not go with the number of replacements.

    Raises:
        UsageError: there is such a setting; the message names its flag.
    """
    for name in EvaluateRequest.model_fields:
        if name not in asked.model_fields_set:
            continue
        flag = asked.flag_names(name)[0]
        if not asked.news and name not in ALSO_ALONE | ONLY_ALONE:
            raise UsageError(f"{flag}: is for a comparison; name NEW, the replacement, as well")
        if asked.news and name in ONLY_ALONE:
            raise UsageError(f"{flag}: is for one model alone; name OLD or NEW alone")
        if asked.labels is None and name in ONLY_WITH_LABELS:
            raise UsageError(f"{flag}: is for traffic with few labels; give --labels FILE too, or --max-nfr")
        if len(asked.news) > 1 and name in ONLY_ONE_UPDATE:
            raise UsageError(
                f"{flag}: is for one NEW, and {len(asked.news)} are given; evaluate one at a time"
            )


def _compare_with_each(asked: EvaluateRequest) -> dict[str, FlipReport]:
    """Compare OLD with each NEW, and write the files of each comparison.

    Returns:
        The report of each NEW, by the name of NEW.
    """
    files = read_files(asked, [asked.old, *asked.news])
    request = _read_request(asked, files)
    memory = parse_memory_limit(asked.memory_limit)
    reports: dict[str, FlipReport] = {}
    with (
        stopped_with("stopped"),
        errors_written_to(files),
        showing_progress(asked.session) as session,
        workspace(memory),
    ):
        updates = load_updates(asked.old, asked.news, session, request.renamed)
        for new, loaded in zip(asked.news, updates, strict=True):
            models = loaded.models
            report = compare(models["old"], models["new"], with_models(request, loaded))
            if loaded.split is not None:
                report = report.model_copy(update={"class_labels": loaded.split.file.class_labels or {}})
            _write_outputs(asked, files, request.today, loaded, report)
            reports[new] = report.with_flips(SHOWN_FLIPS)  # the files may list more
    return reports


def _read_request(asked: EvaluateRequest, files: FlipFiles) -> ComparisonRequest:
    """Check the settings and read the files that they name, before any model is read.

    Raises:
        UsageError, DataError: a setting or a file cannot be used.
    """
    limits = _limits_of(asked)
    gate_file = None if asked.gate_file is None else read_gate_file(asked.gate_file)
    if gate_file is not None:
        _refuse_flags_beside(gate_file, asked)
    request = read_comparison(asked, asked.min_slice)
    if gate_file is None:
        _refuse_flags_without_use(asked, limits, request)
    listed_flips = SHOWN_FLIPS if files.page is None else MOST_FLIPS
    if files.flips is not None or asked.append_history is not None:
        listed_flips = sys.maxsize  # the CSV file and the history take all flips
    return replace(request, limits=limits, gate_file=gate_file, listed_flips=listed_flips)


def _limits_of(asked: EvaluateRequest) -> Limits:
    """The limits of the gate that flags set.

    Raises:
        UsageError: a limit is out of its range.
    """
    percents = {limit.key: getattr(asked, limit.key) for limit in LIMITS}
    return Limits(
        **{key: percent / 100 for key, percent in percents.items() if percent is not None},
        confidence=asked.confidence,
        looks=asked.looks,
        allow_identical=asked.allow_identical,
        allow_unfinished=asked.allow_unfinished,
    )


def _refuse_flags_beside(gate_file: GateFile, asked: EvaluateRequest) -> None:
    """Raise UsageError for a flag in whose place a gate file has a key."""
    if asked.old_classes is not None:
        gate_file.refuse_flag("--old-classes", "old_classes: [cat, dog]")
    if asked.allow_identical:
        gate_file.refuse_flag("--allow-identical", "allow: [identical]")
    if asked.allow_unfinished:
        gate_file.refuse_flag("--allow-unfinished", "allow: [unfinished]")


def _refuse_flags_without_use(asked: EvaluateRequest, limits: Limits, request: ComparisonRequest) -> None:
    """Refuse --confidence without a limit, and --metadata without slices; only without a gate file.

    Raises:
        UsageError: one of them is given without use.
    """
    if limits.confidence is not None and not limits.given():
        raise UsageError(
            f"--confidence {limits.confidence:g}: says how sure a limit must be; give one, such as --max-nfr "
            "2"
        )
    if asked.metadata is not None and not request.slicing.by:
        raise UsageError("--metadata: is for --by or --gate; name a column of it, such as --by country")


def _write_outputs(
    asked: EvaluateRequest, files: FlipFiles, today: date, loaded: NamedModels, report: FlipReport
) -> None:
    """Write the files of a comparison, add it to the history, and print what was written.

    Args:
        asked: the settings.
        files: to write.
        today: the day in UTC.
        loaded: the models of the comparison.
        report: its result, with all flips that the files list.
    """
    sources = None if files.page is None else provenance(sys.argv, digests_of_models(loaded), today)
    for path in files.write(report, loaded.models, asked.data_root, loaded.split, sources):
        typer.echo(f"wrote {path}", err=True)
    add_to_history(asked, lambda tag: make_release(report, today, tag))


def _show_and_gate(report: FlipReport, asked: EvaluateRequest) -> None:
    """Print the comparison with the only replacement.

    Raises:
        GateFailed: the gate did not pass.
        typer.Exit: in its place, where the verdict has just been printed on the same screen.
    """
    if asked.github:
        from mptctl.report.documents.ci import render_github
        from mptctl.report.documents.wording import verdict_line

        # On standard error, since standard output may be JSON; the runner of a workflow reads both.
        write_commands(render_github(report, verdict_line(report)))
    show(report, lambda report: _describe_comparison(report, asked), as_json=asked.as_json)
    with without_repeated_verdict(on_screen=not (asked.as_json or asked.markdown == "-")):
        report.gate.require_passed()


def _describe_comparison(report: FlipReport, asked: EvaluateRequest) -> Document | str:
    """A comparison for a person: Markdown with ``--markdown -``, else tables for the terminal."""
    named = with_class_names(report)
    if asked.markdown == "-":
        from mptctl.report.documents.flips_markdown import render_markdown

        return render_markdown(named)
    return flips_document(named) if asked.full else screen_document(named)


def _show_and_gate_all(reports: Mapping[str, FlipReport], as_json: bool) -> None:
    """Print the comparisons of several replacements, by their names, with one old model.

    Raises:
        GateFailed: a gate did not pass; the message names each such replacement with its reasons.
        typer.Exit: in its place, where the verdicts have just been printed on the same screen.
    """
    named = {name: with_class_names(report) for name, report in reports.items()}
    show(FlipReports(reports=list(reports.values())), lambda _: updates_document(named), as_json=as_json)
    failed = []
    for name, report in reports.items():
        try:
            report.gate.require_passed()
        except GateFailed as error:
            failed.append(f"{name}: {error}")
    with without_repeated_verdict(on_screen=not as_json):
        if failed:
            raise GateFailed(some(failed, len(failed), "; "))
