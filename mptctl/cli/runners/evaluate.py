"""The work of `mptctl evaluate OLD NEW...`: compare a model with its replacements, write, show, gate."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import typer

from mptctl.cli.evaluate_flags import EvaluateFlags, LimitFlags, OutputFlags
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.runners.comparison import Question, files_of, read_question
from mptctl.cli.show import show, show_document
from mptctl.cli.streams import outputs_are_one, write_commands
from mptctl.errors import GateFailed, MptctlError, Stopped, StorageError, UsageError, some
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport, FlipReports
from mptctl.evaluation.gate.gate_file import GateFile, read_gate_file
from mptctl.evaluation.gate.history import append_release, make_release, read_history
from mptctl.evaluation.gate.rules import today_in_utc
from mptctl.evaluation.limits import LIMITS, Limits, small_limits
from mptctl.evaluation.reading.answers import SAVED
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS
from mptctl.evaluation.reading.workspace import parse_size, workspace
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.files.output_kinds import (
    APPENDED,
    HTML,
    JUNIT,
    MARKDOWN,
    OutputKind,
    figure_kind,
    has_header,
)
from mptctl.inference.named_models import NamedModels, load_updates
from mptctl.inference.picture_sizes import lazy_picture_sizes
from mptctl.machine.facts import git_commit
from mptctl.machine.signals import StopRequest, interruptible
from mptctl.names import LOGGED_FLIPS, Session, TrackerName
from mptctl.report.documents.class_names import for_people
from mptctl.report.documents.flip_list import MOST_FLIPS
from mptctl.report.documents.flips_files import PREDICTIONS, FlipFiles
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.provenance import Gathering
from mptctl.report.trackers.tracker import require_trackers

# Exit codes of data, models, numbers and storage that cannot be used.
NOT_COMPARED = range(4, 8)
FLIP_TABLE = OutputKind("table of flips", lambda path: has_header(path, FLIP_COLUMNS), (".csv",))


@dataclass(frozen=True)
class Request:
    """A comparison as its flags ask for it, all files that it needs besides models read.

    Attributes:
        flags: as they were given.
        question: classes and slices.
        limits: of the flags.
        gate_file: further limits.
        files: that are written.
        trackers: that are told.
        today: the day in UTC.
    """

    flags: EvaluateFlags
    question: Question
    limits: Limits
    gate_file: GateFile | None
    files: FlipFiles
    trackers: list[TrackerName]
    today: date

    @property
    def most_flips(self) -> int:
        """Flipped samples that any of the outputs lists at most."""
        if self.files.flips is not None:
            return sys.maxsize
        logged = LOGGED_FLIPS if self.trackers else 0
        on_page = MOST_FLIPS if self.files.page is not None else 0
        return max(self.flags.output.gallery, logged, on_page)


def evaluate_updates(old: str, news: list[str], flags: EvaluateFlags) -> None:
    """Compare the model in production with each of its replacements, and end as the gates do.

    Args:
        old, news: models in any form.
        flags: as they were given; of several replacements none that is for one.

    Raises:
        GateFailed: a gate did not pass.
        Stopped: a signal came.
        MptctlError: a flag, a file or a model that cannot be used.
    """
    named = {"old": old, "noise_floor": flags.noise_floor, "baseline": flags.baseline}
    given = {role: name for role, name in named.items() if name is not None}
    request = _read_request(flags, [*given.values(), *news])
    memory = None if flags.memory_limit is None else parse_size(flags.memory_limit, "--memory-limit")
    # In a pipe nothing is said of rows: a log of pictures is worth a line each half minute, one of rows is
    # not.
    watched = sys.stderr is not None and sys.stderr.isatty()
    stop = StopRequest()
    reports: dict[str, FlipReport] = {}
    try:
        with (
            _told_in_files(request.files),
            interruptible(stop),
            showing_progress(Session(flags.run_root, flags.device, data_root=flags.data_root)) as session,
            workspace(memory, session.progress if watched else None),
        ):
            updates = load_updates(given, news, session, part="test", renamed=request.question.renamed)
            with_pictures = next((found for found in updates if found.split), updates[0])
            pictures = lazy_picture_sizes(with_pictures, session.progress)
            for new, found in zip(news, updates, strict=True):
                slicing = replace(request.question.slicing_of(found.models, found.split), pictures=pictures)
                reports[new] = _compare_and_write(request, new, found, slicing)
    except KeyboardInterrupt as error:
        raise Stopped("stopped", stop.signum or signal.SIGINT) from error
    if len(news) > 1:
        _conclude_updates(reports, flags.as_json)
        return
    [report] = reports.values()
    if flags.output.github:
        from mptctl.report.documents.ci import render_github

        # On standard error: the runner of a workflow reads both, and standard output may be JSON.
        write_commands(render_github(report))
    show(report, lambda report: _print_comparison(report, flags.output), as_json=flags.as_json)
    with _said_once(on_screen=not (flags.as_json or flags.output.markdown == "-")):
        report.gate.require_passed()


def _read_request(flags: EvaluateFlags, models: list[str]) -> Request:
    """Look at everything that can be wrong before a model is read.

    Args:
        flags: as they were given.
        models: all that will be read.
    """
    output, compared = flags.output, flags.compared
    trackers = require_trackers(output.log)
    if output.tag is not None and output.append_history is None:
        raise UsageError(f"--tag {output.tag}: names a release in --append-history FILE.jsonl; give both")
    files = FlipFiles(
        page=output.report,
        figures=output.figures,
        markdown=None if output.markdown in (None, "-") else Path(str(output.markdown)),
        predictions=output.save_predictions,
        junit=output.junit,
        flips=output.flips,
        history=output.append_history,
    )
    _check_outputs(flags, files, models)
    limits = _limits(flags.limits)
    gate_file = None if flags.limits.gate_file is None else read_gate_file(flags.limits.gate_file)
    question = read_question(compared)
    slicing = replace(question.slicing, min_slice=flags.min_slice, fdr=flags.fdr)
    request = Request(
        flags, replace(question, slicing=slicing), limits, gate_file, files, trackers, today_in_utc()
    )
    if gate_file is None:
        _refuse_flags_without_use(request)
    return request


def _check_outputs(flags: EvaluateFlags, files: FlipFiles, models: list[str]) -> None:
    """Refuse outputs that would destroy what is read, or each other, before anything is computed."""
    as_markdown = flags.output.markdown == "-"
    if flags.as_json and as_markdown:
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    outputs = Outputs()
    outputs.add_file("--report", files.page, HTML)
    if files.figures is not None:
        # Only then, because matplotlib takes long to import.
        from mptctl.report.figures.flips import figure_files

        outputs.add_folder("--figures", files.figures, figure_files(), figure_kind)
    outputs.add_file("--markdown", files.markdown, MARKDOWN)
    outputs.add_file("--junit", files.junit, JUNIT)
    outputs.add_file("--flips", files.flips, FLIP_TABLE)
    outputs.add_file("--append-history", files.history, APPENDED)
    outputs.add_folder("--save-predictions", files.predictions, PREDICTIONS, lambda path: SAVED)
    inputs = [*files_read_for(models, flags.run_root), *files_of(flags.compared)]
    if flags.limits.gate_file is not None:
        inputs.append(flags.limits.gate_file)
    outputs.check(inputs, prints=flags.as_json or as_markdown)
    if files.history is not None and files.history.exists():
        read_history(files.history)  # a damaged one is said before anything is computed


def _limits(flags: LimitFlags) -> Limits:
    return Limits(
        **{kind.key: _fraction(getattr(flags, kind.key)) for kind in LIMITS},
        confidence=flags.confidence,
        undecided=flags.undecided,
        allow_identical=flags.allow_identical,
        allow_unfinished=flags.allow_unfinished,
    )


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _refuse_flags_without_use(request: Request) -> None:
    """UsageError where a flag has nothing that it is for; a gate file may need each of them."""
    limits, by = request.limits, request.question.slicing.by
    if limits.confidence is not None and not limits.given():
        raise UsageError(
            f"--confidence {limits.confidence:g}: says how sure a limit must be; give one, such as --max-nfr "
            "2"
        )
    if request.flags.compared.metadata is not None and not by and request.flags.weight is None:
        raise UsageError("--metadata: is for --by or --gate; name a column of it, such as --by country")
    if request.flags.compared.superclasses is not None and not any("superclass" in key for key in by):
        raise UsageError("--superclasses: is for --by superclass or --gate; give one of them")


def _compare_and_write(request: Request, new: str, found: NamedModels, slicing: SliceRequest) -> FlipReport:
    """Compare with one replacement, tell trackers, write files; the report has the flips of the gallery."""
    flags = request.flags
    sources = None if flags.output.report is None else Gathering(found, sys.argv, request.today)
    report = compare(
        found.models["old"],
        found.models["new"],
        ComparisonRequest(
            old_classes=request.question.old_classes,
            limits=request.limits,
            class_map=request.question.class_map,
            slicing=slicing,
            weight=flags.weight,
            gate_file=request.gate_file,
            today=request.today,
            nfr_margin=_fraction(flags.limits.nfr_margin),
            worst=request.most_flips,
            validation=found.validation,
            identical=found.identical,
            unfinished=found.unfinished,
            warnings=[*found.warnings, *small_limits(request.limits)],
        ),
        noise_floor=found.models.get("noise_floor"),
        baseline=found.models.get("baseline"),
    )
    if found.split is not None:
        report = report.model_copy(update={"class_labels": found.split.file.class_labels or {}})
    if request.trackers:
        from mptctl.report.trackers.logged_comparison import log_comparison

        logged = report.model_copy(update={"worst_flips": report.worst_flips[:LOGGED_FLIPS]})
        log_comparison(logged, request.trackers, new, flags.run_root)
    shown = report.model_copy(update={"worst_flips": report.worst_flips[: flags.output.gallery]})
    files, data_root = request.files, flags.data_root
    for path in files.write(shown, found.models, data_root, found.split, report.worst_flips, sources):
        typer.echo(f"wrote {path}", err=True)
    if files.history is not None:
        place = append_release(files.history, make_release(shown, request.today, _tag(flags.output.tag)))
        added = "added to" if place is None else f"not added, since it is release {place} already:"
        typer.echo(f"{added} {files.history}", err=True)
    return shown


def _tag(given: str | None) -> str | None:
    """The name of the release: as it was given, or the commit of the folder at hand, where that is there."""
    if given is not None:
        return given
    try:
        return git_commit(Path.cwd())
    except OSError:
        return None


def _print_comparison(report: FlipReport, output: OutputFlags) -> None:
    """Print a comparison for people, in the form that was asked for."""
    if output.markdown == "-":
        from mptctl.report.documents.flips_markdown import render_markdown

        typer.echo(render_markdown(for_people(report)), nl=False)
    else:
        from rich.console import Console

        from mptctl.report.documents.flips import print_report

        print_report(for_people(report), Console(), output.sort, output.rows, full=output.full)


def _conclude_updates(reports: Mapping[str, FlipReport], as_json: bool) -> None:
    """Print several comparisons with one old model, and end as their gates do.

    Raises:
        GateFailed: names each new model whose gate did not pass, with its reasons.
    """
    named = {name: for_people(report) for name, report in reports.items()}
    show(
        FlipReports(reports=list(reports.values())),
        lambda _: show_document(named, "updates:updates_document"),
        as_json=as_json,
    )
    failed = []
    for name, report in reports.items():
        try:
            report.gate.require_passed()
        except GateFailed as error:
            failed.append(f"{name}: {error}")
    with _said_once(on_screen=not as_json):
        if failed:
            raise GateFailed(some(failed, len(failed), "; "))


@contextmanager
def _told_in_files(files: FlipFiles) -> Iterator[None]:
    """Write an error that keeps the models from being compared into Markdown and JUnit too."""
    try:
        yield
    except MptctlError as error:
        if error.exit_code in NOT_COMPARED:
            with suppress(StorageError):  # the error itself is said in any case
                files.write_error(str(error))
        raise


@contextmanager
def _said_once(*, on_screen: bool) -> Iterator[None]:
    """End without the message of a failed gate where its verdict is the line above, on the same screen."""
    try:
        yield
    except GateFailed as error:
        if on_screen and outputs_are_one():
            raise typer.Exit(error.exit_code) from error
        raise
