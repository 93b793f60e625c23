"""The work of `mptctl evaluate OLD NEW...`: compare a model with its replacements, and gate their release."""

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
from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.runners.comparison import Question, files_named_by, read_question
from mptctl.cli.show import show, show_document
from mptctl.cli.streams import outputs_are_one, write_commands
from mptctl.errors import GateFailed, MptctlError, Stopped, StorageError, UsageError, encodable, some
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport, FlipReports
from mptctl.evaluation.gate.gate_file import GateFile, read_gate_file
from mptctl.evaluation.gate.history import append_release, make_release, read_history
from mptctl.evaluation.gate.rules import today_in_utc
from mptctl.evaluation.limits import LIMITS, Limits, small_limits
from mptctl.evaluation.reading.workspace import parse_size, workspace
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.inference.named_models import NamedModels, load_updates
from mptctl.inference.picture_sizes import make_size_reader
from mptctl.machine.facts import git_commit
from mptctl.machine.signals import StopRequest, interruptible
from mptctl.names import LOGGED_FLIPS, Session, TrackerName
from mptctl.report.documents.class_names import with_class_names
from mptctl.report.documents.flip_list import MOST_FLIPS
from mptctl.report.documents.flips_files import PREDICTIONS, FlipFiles
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.provenance import digests_of_models, provenance
from mptctl.report.trackers.tracker import require_trackers

# Exit codes of data, models, numbers and storage that cannot be used.
NOT_COMPARED = range(4, 8)


@dataclass(frozen=True)
class Request:
    """A comparison that flags ask for; all files that they name are read, but for the models.

    Attributes:
        flags: as they were given.
        question: classes and slices.
        limits: of the flags.
        gate_file: limits and waivers of --gate; None without it.
        files: to write.
        trackers: that the comparison is logged to.
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
        """The largest number of flipped samples that one of the outputs lists, or the history digests."""
        if self.files.flips is not None or self.files.history is not None:
            return sys.maxsize
        logged = LOGGED_FLIPS if self.trackers else 0
        on_page = MOST_FLIPS if self.files.page is not None else 0
        return max(self.flags.output.gallery, logged, on_page)


def evaluate_updates(old: str, news: list[str], flags: EvaluateFlags) -> None:
    """Compare the model in production with each of its replacements; write and print the comparisons.

    Args:
        old, news: models in any form.
        flags: as they were given; with several replacements no flag that is for one.

    Raises:
        GateFailed: a gate did not pass; raised last, once all is written and printed.
        Stopped: a signal came.
        MptctlError: a flag, a file or a model cannot be used.
        typer.Exit: in place of GateFailed, where the verdict has just been printed on the same screen.
    """
    roles = {"old": old, "baseline": flags.baseline}
    given = {role: name for role, name in roles.items() if name is not None}
    request = _read_request(flags, [*given.values(), *news])
    memory = None if flags.memory_limit is None else parse_size(flags.memory_limit, "--memory-limit")
    # The progress of pairing rows is shown in a terminal only: in a log its lines would be of no use.
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    stop = StopRequest()
    reports: dict[str, FlipReport] = {}
    try:
        with (
            _errors_written_to(request.files),
            interruptible(stop),
            showing_progress(Session(flags.run_root, flags.device, data_root=flags.data_root)) as session,
            workspace(memory, session.progress if is_watched else None),
        ):
            updates = load_updates(given, news, session, part="test", renamed=request.question.renamed)
            with_pictures = [loaded for loaded in updates if loaded.split is not None]
            first = with_pictures[0] if with_pictures else updates[0]
            pictures = make_size_reader(first, session.progress)
            for new, loaded in zip(news, updates, strict=True):
                slicing = request.question.slicing_for(loaded.models, loaded.split)
                reports[new] = _compare_and_write(request, new, loaded, replace(slicing, pictures=pictures))
    except KeyboardInterrupt as error:
        raise Stopped("stopped", stop.signum or signal.SIGINT) from error
    if len(news) > 1:
        _show_and_gate_all(reports, flags.as_json)
        return
    [report] = reports.values()
    if flags.output.github:
        from mptctl.report.documents.ci import render_github

        # On standard error, since standard output may be JSON; the runner of a workflow reads both.
        write_commands(render_github(report))
    show(report, lambda report: _print_comparison(report, flags.output), as_json=flags.as_json)
    with _without_repeated_verdict(on_screen=not (flags.as_json or flags.output.markdown == "-")):
        report.gate.require_passed()


def _read_request(flags: EvaluateFlags, models: list[str]) -> Request:
    """Check the flags and read the files that they name, before any model is read.

    Args:
        flags: as they were given.
        models: every model that will be read.

    Raises:
        UsageError, DataError: a flag, an output or a file cannot be used.
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
    limits = _limits_of_flags(flags.limits)
    gate_file = None if flags.limits.gate_file is None else read_gate_file(flags.limits.gate_file)
    if gate_file is not None:
        gate_file.refuse_loosening(
            {
                "--old-classes": (compared.old_classes is not None, "old_classes: [cat, dog]"),
                "--allow-identical": (limits.allow_identical, "allow: [identical]"),
                "--allow-unfinished": (limits.allow_unfinished, "allow: [unfinished]"),
            }
        )
    question = read_question(compared)
    slicing = replace(question.slicing, min_slice=flags.min_slice)
    request = Request(
        flags, replace(question, slicing=slicing), limits, gate_file, files, trackers, today_in_utc()
    )
    if gate_file is None:
        _refuse_flags_without_use(request)
    return request


def _check_outputs(flags: EvaluateFlags, files: FlipFiles, models: list[str]) -> None:
    """Refuse outputs that would destroy an input or one another, and a history file that is damaged."""
    prints_markdown = flags.output.markdown == "-"
    if flags.as_json and prints_markdown:
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    outputs = Outputs()
    outputs.add_file("--report", files.page, PAGE)
    if files.figures is not None:
        # Imported only here, because matplotlib takes long.
        from mptctl.report.figures.flips import figure_files

        outputs.add_folder("--figures", files.figures, figure_files())
    outputs.add_file("--markdown", files.markdown)
    outputs.add_file("--junit", files.junit)
    outputs.add_file("--flips", files.flips, (".csv",))
    outputs.add_file("--append-history", files.history)
    outputs.add_folder("--save-predictions", files.predictions, PREDICTIONS)
    inputs = [*files_read_for(models, flags.run_root), *files_named_by(flags.compared)]
    if flags.limits.gate_file is not None:
        inputs.append(flags.limits.gate_file)
    outputs.check(inputs)
    if files.history is not None and files.history.exists():
        read_history(files.history)  # raises an error where it is damaged


def _limits_of_flags(flags: LimitFlags) -> Limits:
    """The limits that flags set in percent and points, as fractions."""
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
    """Refuse --confidence and --metadata where nothing uses them; only without a gate file.

    Raises:
        UsageError: one of them is given without use.
    """
    limits, by = request.limits, request.question.slicing.by
    if limits.confidence is not None and not limits.given():
        raise UsageError(
            f"--confidence {limits.confidence:g}: says how sure a limit must be; give one, such as --max-nfr "
            "2"
        )
    if request.flags.compared.metadata is not None and not by:
        raise UsageError("--metadata: is for --by or --gate; name a column of it, such as --by country")


def _compare_and_write(request: Request, new: str, loaded: NamedModels, slicing: SliceRequest) -> FlipReport:
    """Compare with one replacement, log to trackers, write all files, and print their paths.

    Args:
        request: the comparison.
        new: name of the replacement, for the trackers.
        loaded: predictions of old and new model, and of those of further roles.
        slicing: the slices.

    Returns:
        The report, with as many flipped samples as --gallery says.
    """
    flags = request.flags
    report = compare(
        loaded.models["old"],
        loaded.models["new"],
        ComparisonRequest(
            old_classes=request.question.old_classes,
            limits=request.limits,
            class_map=request.question.class_map,
            slicing=slicing,
            gate_file=request.gate_file,
            today=request.today,
            worst=request.most_flips,
            identical=loaded.identical,
            unfinished=loaded.unfinished,
            warnings=[*loaded.warnings, *small_limits(request.limits)],
        ),
        baseline=loaded.models.get("baseline"),
    )
    if loaded.split is not None:
        report = report.model_copy(update={"class_labels": loaded.split.file.class_labels or {}})
    if request.trackers:
        from mptctl.report.trackers.logged_comparison import log_comparison

        logged = report.model_copy(update={"worst_flips": report.worst_flips[:LOGGED_FLIPS]})
        log_comparison(logged, request.trackers, new, flags.run_root)
    shown = report.model_copy(update={"worst_flips": report.worst_flips[: flags.output.gallery]})
    files, data_root = request.files, flags.data_root
    sources = None
    if files.page is not None:
        sources = provenance(sys.argv, digests_of_models(loaded), request.today)
    written = files.write(shown, loaded.models, data_root, loaded.split, report.worst_flips, sources)
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    if files.figures is not None and not any(path.parent == files.figures for path in written):
        typer.echo("wrote no figures: they show logits, and predictions alone were given", err=True)
    if files.history is not None:
        tag = flags.output.tag
        release = make_release(report, request.today, _release_tag(tag))
        place = append_release(files.history, release, named=tag is not None)
        added = "added to" if place is None else f"not added, since it is release {place} already:"
        typer.echo(f"{added} {files.history}", err=True)
    return shown


def _release_tag(given: str | None) -> str | None:
    """The name of the release: the given one, or the git commit of this folder; None without either."""
    if given is not None:
        return encodable(given)
    try:
        return git_commit(Path.cwd())
    except OSError:
        return None


def _print_comparison(report: FlipReport, output: OutputFlags) -> None:
    """Print a comparison for a person: Markdown with ``--markdown -``, else tables for the terminal."""
    if output.markdown == "-":
        from mptctl.report.documents.flips_markdown import render_markdown

        typer.echo(render_markdown(with_class_names(report)), nl=False)
    elif output.full or output.rows is not None:
        show_document(with_class_names(report), "flips:flips_document", output.sort, output.rows)
    else:
        show_document(with_class_names(report), "flips:screen_document")


def _show_and_gate_all(reports: Mapping[str, FlipReport], as_json: bool) -> None:
    """Print the comparisons of several replacements, by their names, with one old model.

    Raises:
        GateFailed: a gate did not pass; the message names each such replacement with its reasons.
        typer.Exit: in its place, where the verdicts have just been printed on the same screen.
    """
    named = {name: with_class_names(report) for name, report in reports.items()}
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
    with _without_repeated_verdict(on_screen=not as_json):
        if failed:
            raise GateFailed(some(failed, len(failed), "; "))


@contextmanager
def _errors_written_to(files: FlipFiles) -> Iterator[None]:
    """Write an error that prevents the comparison to the Markdown and JUnit files too, and raise it again."""
    try:
        yield
    except MptctlError as error:
        if error.exit_code in NOT_COMPARED:
            with suppress(StorageError):  # the first error is the one to report
                files.write_error(str(error))
        raise


@contextmanager
def _without_repeated_verdict(*, on_screen: bool) -> Iterator[None]:
    """Turn GateFailed into an exit without message where the line above on the screen is the verdict.

    Args:
        on_screen: the verdict has just been printed to standard output, for a person.
    """
    try:
        yield
    except GateFailed as error:
        if on_screen and outputs_are_one():
            raise typer.Exit(error.exit_code) from error
        raise
