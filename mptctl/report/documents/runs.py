"""The runs below a run root, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console

from mptctl.errors import some
from mptctl.models.run_list import RunEntry
from mptctl.report.media.numbers import percent
from mptctl.report.media.tables import make_table, words


def print_runs(runs: Sequence[RunEntry], console: Console) -> None:
    """Print one row a run, and below the table what is wrong with those that are broken."""
    table = make_table(
        console,
        "run",
        "method",
        "state (epoch)",
        "error",
        "when",
        "teacher of",
        left=("method", "state (epoch)", "when", "teacher of"),
        spare=("teacher of", "when", "method"),
    )
    for column in table.columns[3:5]:
        column.no_wrap = True
    for run in runs:
        table.add_row(
            words(run.run),
            run.method or "",
            _state(run),
            percent(run.val_error, 1),
            f"{datetime.fromisoformat(run.when):%d %b %H:%M}",
            words(some(_beside(run.run, other) for other in run.teacher_of)),
        )
    console.print(table)
    for run in runs:
        if run.problem is not None:
            console.print(words(f"{run.run}: {run.problem}"), highlight=False)


def _state(run: RunEntry) -> str:
    if run.state not in ("running", "interrupted"):
        return run.state
    return f"{run.state} ({run.epoch or 0} of {run.epochs})"


def _beside(run: str, other: str) -> str:
    """Another run's name, without the folder that both are in."""
    folder = run.rpartition("/")[0]
    while folder:
        if other.startswith(f"{folder}/"):
            return other.removeprefix(f"{folder}/")
        folder = folder.rpartition("/")[0]
    return other
