"""A study as one HTML page that needs nothing but itself: its table or its chain, and every run of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from mptctl.files import writing
from mptctl.report.documents.chain_wording import (
    MEANING,
    TITLES,
    Column,
    count_text,
    interval_text,
    remarks,
    seeds_of,
    value_text,
)
from mptctl.report.documents.comparison_page import comparison_page
from mptctl.report.figures.chain import draw_chain
from mptctl.report.media.numbers import duration, format_count
from mptctl.report.media.page import inline_figure
from mptctl.report.media.provenance import Provenance, origins_of_runs, provenance
from mptctl.report.media.tables_page import Cell, PageTable, TablesPage
from mptctl.studies.chain import ChainReport, ChainRow
from mptctl.studies.study_report import StudyReport

CHAIN_CAPTION = (
    "Flips against generation 0, new and lasting, and below zero what was healed; with 95\u00a0% intervals."
)


def save_study_page(report: StudyReport, path: Path, argv: Sequence[str]) -> None:
    """Write the page of a study.

    Args:
        report: what it came to.
        path: of the page.
        argv: of the command, its program first.

    Raises:
        StorageError: it cannot be written.
    """
    runs = [f"{report.run_root}/{row.seed}/{row.run}" for row in report.runs if row.status == "done"]
    page = render_study(report, provenance(argv, origins_of_runs(runs)))
    with writing(path) as stream:
        stream.write(page.encode())


def render_study(report: StudyReport, provenance: Provenance | None = None) -> str:
    """The page as text.

    Args:
        report: what the study came to.
        provenance: what the page was made from.
    """
    found = TablesPage(report.study, [], [], [], "")
    if report.comparison is not None:
        found = comparison_page(report.comparison)
    elif report.chain is not None:
        found = _chain_page(report.chain)
    done = sum(row.status == "done" for row in report.runs)
    said = f"{done:,} of {len(report.runs):,} runs are done, in {duration(report.seconds)} of this call."
    page = dataclasses.replace(
        found,
        subject=f"study {report.study}, seeds {', '.join(map(str, report.seeds))}",
        sentences=[*found.sentences, said],
        tables=[*found.tables, _runs(report)],
        state="bad" if report.failed else found.state,
    )
    return page.render(provenance)


def _runs(report: StudyReport) -> PageTable:
    rows = [
        [
            Cell(f"{row.seed}/{row.run}"),
            Cell(row.method),
            Cell(row.status),
            Cell(f"{row.steps:,}"),
            Cell(row.error or ""),
        ]
        for row in report.runs
    ]
    return PageTable("Runs", ["run", "method", "state", "steps", "note"], rows, left=frozenset({1, 2, 4}))


def _chain_page(report: ChainReport) -> TablesPage:
    figures = []
    if report.rows:
        seen = "; ".join(
            f"{row.name}, generation {row.generation}: {format_count(row.flips_first)} against the first"
            for row in report.rows
        )
        figures = [
            inline_figure("chain", CHAIN_CAPTION, draw_chain(report), f"Flips of each generation. {seen}.")
        ]
    heads = ["method", "generation", "classes", *(f"{title} %" for title in TITLES.values())]
    tables = [
        PageTable(
            "Updates" if heading is None else heading.capitalize(), heads, [_generation(row) for row in rows]
        )
        for heading, rows in seeds_of(report)
    ]
    return TablesPage("A chain of updates", remarks(report), figures, tables, MEANING)


def _generation(row: ChainRow) -> list[Cell]:
    return [
        Cell(row.name),
        Cell(str(row.generation)),
        Cell(f"{row.classes:,}"),
        *(_rate(row, column) for column in TITLES),
    ]


def _rate(row: ChainRow, column: Column) -> Cell:
    rate = getattr(row, column)
    return Cell(value_text(rate), f"{interval_text(rate)}\n{count_text(row, column)}")
