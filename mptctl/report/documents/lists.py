"""Make documents of lists: of runs, of presets and studies, and of what is usable on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import yaml

from mptctl.errors import some
from mptctl.machine.doctor import DoctorReport
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Table, notes
from mptctl.report.media.numbers import percent
from mptctl.studies.catalog import Catalog, CatalogEntry

if TYPE_CHECKING:  # imports torch, which the lists of other things do without
    from mptctl.models.run_list import RunEntry, RunList


def runs_document(run_list: RunList) -> Document:
    """The document of a list of runs: a row for each run, then a sentence on each broken one."""
    table = Table(
        run_list.runs,
        [
            Column("run", lambda run: run.run),
            Column("method", lambda run: run.method or "", words=True),
            Column("state (epoch)", _state, words=True),
            Column("error", lambda run: percent(run.val_error, 1)),
            Column("when", lambda run: f"{datetime.fromisoformat(run.when):%d %b %H:%M}"),
            Column(
                "teacher of",
                lambda run: some(run.teacher_of),
                words=True,
            ),
        ],
    )
    problems = [f"{run.run}: {run.problem}" for run in run_list.runs if run.problem is not None]
    return Document([table, *notes(problems)])


def _state(run: RunEntry) -> str:
    """The state of a run, with its epochs while they are not all trained."""
    if run.state not in ("running", "interrupted"):
        return run.state
    return f"{run.state} ({run.epoch or 0} of {run.epochs})"


def catalog_document(catalog: Catalog) -> Document:
    """The document of presets and studies: a row for each."""
    table = Table(
        catalog.recipes,
        [
            Column("name", lambda entry: entry.name),
            Column("kind", lambda entry: entry.kind, words=True),
            Column("what it is", lambda entry: entry.description, words=True),
        ],
        whole=True,
    )
    return Document([table])


def catalog_yaml(entries: Sequence[CatalogEntry]) -> str:
    """The keys of each preset and study as a YAML document, below a comment with its name."""
    return "---\n".join(
        f"# {entry.kind} {entry.name}: {entry.description}\n{yaml.safe_dump(entry.content, sort_keys=False)}"
        for entry in entries
    )


def doctor_document(report: DoctorReport) -> Document:
    """The document of `doctor`: a row for each check of the machine, and the conclusion."""
    table = Table(
        report.checks,
        [
            Column("what", lambda check: check.name),
            Column("state", lambda check: Cell(check.state, tone=TONES[check.state]), words=True),
            Column("found", lambda check: "; ".join(filter(None, (check.found, check.advice))), words=True),
        ],
    )
    # Wrapped in a pipe too: a program takes the conclusion from --json.
    return Document([table, Note(report.conclusion, "strong")])
