"""Show a study or the quickstart: documents of result and plan, runs live in a terminal or as a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.text import Text

from mptctl.files import writing
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.media.document import ON_PAGE, ON_SCREEN, TONES, Cell, Column, Document, Note, Table
from mptctl.report.media.numbers import duration, format_interval, percent
from mptctl.report.media.progress_bars import ChangesLog, JobState, live_view
from mptctl.report.media.provenance import digests_of_runs, provenance
from mptctl.report.media.terminal import rich_table
from mptctl.studies.study_dry_run import StudyDryRun
from mptctl.studies.study_report import Board, RunProgress, StudyReport, StudyRow

if TYPE_CHECKING:  # imports torch
    from mptctl.studies.quickstart import QuickstartResult

# What the plan says of the run folder of a run, by its standing.
STANDINGS = {"missing": "no", "begun": "interrupted", "unanswered": "without its answers", "done": "yes"}


def study_document(report: StudyReport) -> Document:
    """The document of a study: that of its comparison, with its failed runs and all runs.

    A terminal shows the errors of failed runs first; a page shows a table of all runs last.
    """
    result = Document([], title=report.study)
    if report.comparison is not None:
        result = comparison_document(report.comparison)
    failed = [
        Note(f"{row.seed}/{row.run}: {row.status}: {row.error}", whole=True, media=ON_SCREEN)
        for row in report.runs
        if row.error is not None
    ]
    done = sum(row.status == "done" for row in report.runs)
    progress = f"{done:,} of {len(report.runs):,} runs are done, in {duration(report.seconds)} of this call."
    return replace(
        result,
        parts=[*failed, *result.parts, Note(progress, media=ON_PAGE), _runs_table(report)],
        subject=f"study {report.study}, seeds {', '.join(map(str, report.seeds))}",
        state="failed" if any(row.status == "failed" for row in report.runs) else result.state,
    )


def _runs_table(report: StudyReport) -> Table[StudyRow]:
    """A row for each run with its state and steps, for a page."""
    return Table(
        report.runs,
        [
            Column("run", lambda row: f"{row.seed}/{row.run}"),
            Column("method", lambda row: row.method, words=True),
            Column("state", lambda row: Cell(row.status, tone=TONES[row.status]), words=True),
            Column("steps", lambda row: f"{row.steps:,}"),
            Column("note", lambda row: row.error or "", words=True),
        ],
        name="Runs",
        media=ON_PAGE,
    )


def save_study_page(report: StudyReport, path: Path, argv: Sequence[str]) -> None:
    """Write the page of a study as one HTML file.

    Args:
        report: of the study; its finished runs are read for the page's provenance.
        path: of the page.
        argv: of the command, its program first.

    Raises:
        StorageError: the page cannot be written.
    """
    from mptctl.report.media.page import render_document

    runs = [f"{report.run_root}/{row.seed}/{row.run}" for row in report.runs if row.status == "done"]
    page = render_document(study_document(report), provenance(argv, digests_of_runs(runs)))
    with writing(path) as stream:
        stream.write(page.encode())


def watch_study(console: Console) -> AbstractContextManager[Callable[[Board], None]]:
    """Show a study as it runs: a table of runs in a terminal, a line for each change of a run elsewhere.

    Args:
        console: on standard error.

    Returns:
        A context manager that yields a function to be called with each new state of the study.
    """
    return live_view(console, partial(board_view, console=console), ChangesLog(console, _states, summary))


def board_view(board: Board, console: Console) -> Group:
    """The table of runs and the summary, for a screen; where not all runs fit, running ones come first."""
    room = max(5, console.height - 6)  # titles, summary and prompt take 6 lines
    shown = board.runs
    if len(shown) > room:
        order = ("running", "failed", "blocked", "waiting", "done")
        shown = sorted(shown, key=lambda progress: order.index(progress.status))[:room]
    table = Table(
        shown,
        [
            Column("run", lambda progress: progress.run.key),
            Column("method", lambda progress: progress.run.method, words=True),
            Column("state", lambda progress: Cell(progress.status, tone=TONES[progress.status]), words=True),
            Column("steps", lambda progress: f"{progress.step:,}/{progress.total_steps:,}"),
            Column("left", _time_left),
        ],
    )
    return Group(rich_table(table), Text(summary(board), style="dim"))


def _time_left(progress: RunProgress) -> str:
    """The time that a running run still takes; empty where that is not known."""
    if progress.status != "running" or progress.seconds_left is None:
        return ""
    return duration(progress.seconds_left)


def summary(board: Board) -> str:
    """The number of runs of each status and, where it is known, the time left."""
    counts = Counter[str](progress.status for progress in board.runs)
    statuses = ("done", "running", "waiting", "failed", "blocked")
    text = ", ".join(f"{counts[status]} {status}" for status in statuses if counts[status])
    left = f"; about {duration(board.seconds_left)} left" if board.seconds_left is not None else ""
    return f"{text} of {len(board.runs)} runs{left}"


def plan_document(plan: StudyDryRun) -> Document:
    """The document of a dry run: what is done of each run, and the time that the rest will take."""
    table = Table(
        plan.runs,
        [
            Column("run", lambda row: f"{row.seed}/{row.run}"),
            Column("method", lambda row: row.method, words=True),
            Column("there", lambda row: STANDINGS[row.standing], words=True),
            Column("steps left", lambda row: f"{row.steps:,}" if row.steps else ""),
            Column("ms a step", lambda row: f"{1000 * row.step_seconds:.1f}" if row.steps else ""),
            Column("takes", lambda row: duration(row.seconds) if row.steps else ""),
        ],
    )
    runs_left = sum(row.standing != "done" for row in plan.runs)
    total = (
        f"{runs_left} of {len(plan.runs)} runs are left, {plan.parallel} at a time on {plan.device}: "
        f"together about {duration(plan.seconds)} of training (from three steps of each kind on random "
        f"tensors, nothing else computing, pictures at hand)"
    )
    head = Note(f"{plan.study}: {plan.description}", whole=True)
    return Document([head, table, Note(total, whole=True)])


def _states(board: Board) -> list[JobState]:
    return [JobState(each.run.key, each.status, each.restarts, _log_line(each)) for each in board.runs]


def _log_line(progress: RunProgress) -> str:
    """The line of a log on the status of a run."""
    run = progress.run
    if progress.error is not None:
        return f"{run.key}: {progress.status}: {progress.error}"
    if progress.status == "waiting":  # the log leaves out runs that wait for their first start
        return f"{run.key}: its process died; another one goes on"
    if progress.status == "running":
        from_step = f", from step {progress.step:,}" if progress.step else ""
        method = "plain training" if run.method == "no-treatment" else run.method
        in_brackets = "" if run.name == method else f" ({method})"
        return f"{run.key}{in_brackets}: {progress.total_steps:,} steps{from_step}"
    return f"{run.key}: {progress.status}"


def quickstart_document(result: QuickstartResult) -> Document:
    """The document of the quickstart: the table of models, its meaning, and the next commands."""
    table = Table(
        result.rows,
        [
            Column("model", lambda row: row.model),
            Column("flips", lambda row: f"{row.negative_flips:,}"),
            Column("of", lambda row: f"{row.n_old:,}"),
            Column("NFR", lambda row: percent(row.nfr)),
            Column("95 % interval", lambda row: format_interval(row.nfr_ci95)),
            Column("error, old", lambda row: percent(row.er_old_classes)),
            Column("error, all", lambda row: percent(row.er_all)),
        ],
    )
    return Document(
        [
            table,
            Note(result.meaning),
            Note(""),
            Note(f"All that the MPT update breaks: {result.report}", whole=True),
            Note(f"For your own data: {result.next_command}", whole=True),
        ]
    )
