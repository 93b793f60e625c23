"""Make the document of the quickstart: what each update breaks, in numbers and words, and what to do next."""

from __future__ import annotations

from mptctl.report.media.document import Column, Document, Note, Table
from mptctl.report.media.numbers import format_interval, percent
from mptctl.studies.quickstart import QuickstartResult

COLUMNS = (
    Column("model"),
    Column("flips"),
    Column("of"),
    Column("NFR"),
    Column("95 % interval"),
    Column("error, old"),
    Column("error, all"),
)


def quickstart_document(result: QuickstartResult) -> Document:
    """The document of the quickstart: the table of models, its meaning, and the next commands."""
    rows = [
        [
            row.model,
            f"{row.negative_flips:,}",
            f"{row.n_old:,}",
            percent(row.nfr),
            format_interval(row.nfr_ci95),
            percent(row.er_old_classes),
            percent(row.er_all),
        ]
        for row in result.rows
    ]
    hints = (f"All that the MPT update breaks: {result.report}", f"For your own data: {result.next_command}")
    return Document(
        [
            Table(COLUMNS, rows),
            Note(result.meaning),
            Note(""),
            *(Note(text, whole=True) for text in hints),
        ]
    )
