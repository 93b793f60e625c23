"""Show lists: of runs, of presets and studies, and of what is usable on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import yaml
from rich.console import Console

from mptctl.errors import some
from mptctl.machine.doctor import DoctorReport
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Row, Table, notes
from mptctl.report.media.numbers import percent
from mptctl.report.media.terminal import print_table
from mptctl.studies.catalog import CatalogEntry

if TYPE_CHECKING:  # imports torch, which the lists of other things do without
    from mptctl.models.run_list import RunEntry, RunList


def runs_document(run_list: RunList) -> Document:
    """The document of a list of runs: a row for each run, then a sentence on each broken one."""
    columns = [
        Column("run"),
        Column("method", words=True),
        Column("state (epoch)", words=True),
        Column("error"),
        Column("when"),
        Column("teacher of", words=True),
    ]
    rows = [
        [
            run.run,
            run.method or "",
            _state(run),
            percent(run.val_error, 1),
            f"{datetime.fromisoformat(run.when):%d %b %H:%M}",
            some(_name_beside(run.run, student) for student in run.teacher_of),
        ]
        for run in run_list.runs
    ]
    problems = [f"{run.run}: {run.problem}" for run in run_list.runs if run.problem is not None]
    return Document([Table(columns, rows), *notes(problems)])


def _state(run: RunEntry) -> str:
    """The state of a run, with its epochs while they are not all trained."""
    if run.state not in ("running", "interrupted"):
        return run.state
    return f"{run.state} ({run.epoch or 0} of {run.epochs})"


def _name_beside(run: str, other: str) -> str:
    """The name of another run without the innermost folder that contains both: ``1`` for ``ens/1``."""
    folder = run.rpartition("/")[0]
    while folder:
        if other.startswith(f"{folder}/"):
            return other.removeprefix(f"{folder}/")
        folder = folder.rpartition("/")[0]
    return other


def print_catalog(entries: Sequence[CatalogEntry], console: Console) -> None:
    """Print presets and studies: a table in a terminal, a line each in a pipe, for programs to search.

    Args:
        entries: at least one.
        console: where to print.
    """
    if not console.is_terminal:
        width = max(len(entry.name) for entry in entries)
        for entry in entries:
            line = f"{entry.name:<{width}}  {entry.kind:<6}  {entry.description}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return
    columns = [Column("name"), Column("kind", words=True), Column("what it is", words=True)]
    print_table(Table(columns, [[entry.name, entry.kind, entry.description] for entry in entries]), console)


def catalog_yaml(entries: Sequence[CatalogEntry]) -> str:
    """The keys of each preset and study as a YAML document, below a comment with its name."""
    return "---\n".join(
        f"# {entry.kind} {entry.name}: {entry.description}\n{yaml.safe_dump(entry.content, sort_keys=False)}"
        for entry in entries
    )


def doctor_document(report: DoctorReport) -> Document:
    """The document of `doctor`: a row for each check of the machine, and the conclusion."""
    rows: list[Row] = [
        [
            check.name,
            Cell(check.state, tone=TONES[check.state]),
            check.found + (f"; {check.advice}" if check.advice else ""),
        ]
        for check in report.checks
    ]
    columns = [Column("what"), Column("state", words=True), Column("found", words=True)]
    # Wrapped in a pipe too: a program takes the conclusion from --json.
    return Document([Table(columns, rows), Note(report.conclusion, "strong")])
