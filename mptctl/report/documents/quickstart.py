"""Make the document of the quickstart: what each update breaks, in numbers and words, and what to do next."""

from __future__ import annotations

from mptctl.report.media.document import Column, Document, Note, Table
from mptctl.report.media.numbers import format_interval, percent
from mptctl.studies.quickstart import QuickstartResult


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
