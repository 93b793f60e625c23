"""A study in a terminal: all runs as a live table; in a log a line for each that begins or ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from rich.console import Console, Group
from rich.text import Text

from mptctl.report.documents.chain import print_chain
from mptctl.report.documents.comparison import print_comparison
from mptctl.report.media.live import follow
from mptctl.report.media.numbers import duration
from mptctl.report.media.progress_bars import LOG_SECONDS, plain_line
from mptctl.report.media.tables import make_table, say, words
from mptctl.studies.study_dry_run import StudyDryRun
from mptctl.studies.study_report import Board, RunProgress, StudyReport

STANDINGS = {"missing": "no", "begun": "interrupted", "unanswered": "without its answers", "done": "yes"}
STYLES = {"done": "green", "running": "bold", "failed": "red", "blocked": "red", "waiting": "dim"}


def watching(console: Console) -> AbstractContextManager[Callable[[Board], None]]:
    """A watcher of a study: a table that follows it in a terminal, lines in a log.

    Args:
        console: on standard error.
    """
    return follow(console, partial(board_view, console=console), _Plain(console))


def board_view(board: Board, console: Console) -> Group:
    """All runs that fit on the screen, those that run first where not all do, and what is left of the study."""
    table = make_table(
        console,
        "run",
        "method",
        "state",
        "steps",
        "left",
        left=("method", "state"),
        spare=("method", "steps"),
    )
    room = max(5, console.height - 6)
    shown = board.runs
    if len(shown) > room:
        order = ("running", "failed", "blocked", "waiting", "done")
        shown = sorted(shown, key=lambda progress: order.index(progress.status))[:room]
    for progress in shown:
        left = duration(progress.seconds_left) if progress.seconds_left is not None else ""
        table.add_row(
            progress.run.key,
            progress.run.method,
            Text(progress.status, style=STYLES[progress.status]),
            f"{progress.step:,}/{progress.total_steps:,}",
            left if progress.status == "running" else "",
        )
    return Group(table, Text(summary(board), style="dim"))


def summary(board: Board) -> str:
    """How many runs there are of each status, and the time left."""
    counts = {status: board.count(status) for status in ("done", "running", "waiting", "failed", "blocked")}
    text = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    left = f"; about {duration(board.seconds_left)} left" if board.seconds_left is not None else ""
    return f"{text} of {len(board.runs)} runs{left}"


def print_study(report: StudyReport, console: Console) -> None:
    """Print what a study came to: what failed, and the table of its updates."""
    for row in report.runs:
        if row.error is not None:
            say(words(f"{row.seed}/{row.run}: {row.status}: {row.error}"), console)
    if report.comparison is not None:
        print_comparison(report.comparison, console)
    if report.chain is not None:
        print_chain(report.chain, console)


def print_plan(plan: StudyDryRun, console: Console) -> None:
    """Print what a study would be: its runs, what is there, and what the rest will take."""
    say(words(f"{plan.study}: {plan.description}"), console)
    table = make_table(
        console,
        "run",
        "method",
        "there",
        "steps left",
        "ms a step",
        "takes",
        left=("method", "there"),
        spare=("method", "ms a step", "steps left"),
    )
    for row in plan.runs:
        left = row.steps > 0
        table.add_row(
            f"{row.seed}/{row.run}",
            row.method,
            STANDINGS[row.standing],
            f"{row.steps:,}" if left else "",
            f"{1000 * row.step_seconds:.1f}" if left else "",
            duration(row.seconds) if left else "",
        )
    console.print(table)
    count = sum(row.standing != "done" for row in plan.runs)
    at_a_time = f"{plan.parallel} at a time"
    if plan.lockstep > 1:
        at_a_time = f"{plan.parallel} processes of at most {plan.lockstep} in lock-step"
    said = (
        f"{count} of {len(plan.runs)} runs are left: about {duration(plan.seconds)}, {at_a_time} on "
        f"{plan.device} (from a few steps on random tensors, nothing else computing, pictures at hand), and at most "
        f"{plan.disk_mb:,.0f} MB of the {plan.free_mb:,.0f} MB that are free in {plan.run_root}"
    )
    say(words(said), console)


class _Plain:
    """A line for each run that begins, ends or goes on elsewhere, and one now and then on all of them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[str, tuple[str, int]] = {}
        self._last = time.monotonic()

    def __call__(self, board: Board) -> None:
        """Say what has changed."""
        for progress in board.runs:
            state = (progress.status, progress.restarts)
            if self._seen.get(progress.run.key, ("waiting", 0)) != state:
                self._say(_line(progress))
            self._seen[progress.run.key] = state
        if time.monotonic() - self._last >= LOG_SECONDS:
            self._say(summary(board))

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        plain_line(self._console, text)


def _line(progress: RunProgress) -> str:
    run = progress.run
    if progress.error is not None:
        return f"{run.key}: {progress.status}: {progress.error}"
    if progress.status == "waiting":
        return f"{run.key}: its process died; another one goes on"
    if progress.status == "running":
        begun = f", from step {progress.step:,}" if progress.step else ""
        method = "plain training" if run.method == "no-treatment" else run.method
        named = "" if run.name == method else f" ({method})"
        return f"{run.key}{named}: {progress.total_steps:,} steps{begun}"
    return f"{run.key}: {progress.status}"
