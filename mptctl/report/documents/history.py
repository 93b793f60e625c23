"""Make the document of releases over time: a row for each, and the range of their NFR."""

from __future__ import annotations

from mptctl.evaluation.gate.history import History, Release
from mptctl.files.explained import shown
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Table
from mptctl.report.media.numbers import format_interval, percent


def history_document(history: History) -> Document:
    """The document of a history of at least one release."""
    releases = history.releases
    rates = [release.nfr for release in releases]
    tag = Column[Release]("tag", lambda release: shown(release.tag or ""), words=True)
    table = Table(
        releases,
        [
            Column("date", lambda release: release.date.isoformat()),
            Column("new", lambda release: shown(release.new), words=True),
            *([tag] if any(release.tag for release in releases) else []),
            Column("flips", lambda release: f"{release.counts.negative_flips:,} / {release.n_old:,}"),
            Column("NFR", lambda release: percent(release.nfr)),
            Column("95 % interval", lambda release: format_interval(release.nfr_ci95, 1)),
            Column("lost", lambda release: percent(release.lost, 1)),
            Column("error", lambda release: percent(release.er_new, 1)),
            Column("gate", _verdict, words=True),
        ],
    )
    return Document([table, Note(f"NFR from {percent(min(rates))} to {percent(max(rates))}.")])


def _verdict(release: Release) -> Cell:
    """The verdict, and whether it may be asked again and again."""
    looks = ", any looks" if release.looks == "any" else ""
    return Cell(release.verdict + looks, tone=TONES[release.verdict])
