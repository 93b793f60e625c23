"""Make the document of a history: releases with the range of their NFR, and looks at labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from mptctl.evaluation.gate.history import Entry, History, Look, Release
from mptctl.files.explained import shown
from mptctl.report.media.document import TONES, Cell, Column, Document, Table, notes
from mptctl.report.media.numbers import format_interval, percent

E = TypeVar("E", bound=Entry)


def history_document(history: History) -> Document:
    """The document of a history of at least one entry."""
    releases = Table(
        history.releases,
        [
            *_named(history.releases),
            Column("flips", lambda release: f"{release.counts.negative_flips:,} / {release.n_old:,}"),
            Column("NFR", lambda release: percent(release.nfr)),
            Column("95 % interval", lambda release: format_interval(release.nfr_ci95, 1)),
            Column("lost", lambda release: percent(release.lost, 1)),
            Column("error", lambda release: percent(release.er_new, 1)),
            Column[Release]("gate", _verdict, words=True),
        ],
    )
    levels = " or ".join(dict.fromkeys(f"{100 * look.confidence:.10g}" for look in history.looks))
    looks = Table(
        history.looks,
        [
            *_named(history.looks),
            Column("draw", lambda look: _name_of(look.draw)),
            Column("labels", lambda look: f"{look.labelled:,}"),
            Column("flips", lambda look: percent(look.flips)),
            Column(f"{levels} % interval", lambda look: format_interval(look.interval, 1)),
            Column[Look]("gate", _verdict, words=True),
        ],
        title="Looks at labels (draw: traffic, seed, rows)",
    )
    rates = [release.nfr for release in history.releases]
    span = [f"NFR from {percent(min(rates))} to {percent(max(rates))}."] if len(rates) > 1 else []
    shown_tables = [table for table in (releases, looks) if table.rows]
    return Document([*shown_tables, *notes(span), *notes(_without_level(history.looks), "doubt")])


def _named(entries: Sequence[E]) -> list[Column[E]]:
    """The columns that name an entry; its tag where any has one."""
    columns = [
        Column[E]("date", lambda entry: entry.date.isoformat()),
        Column[E]("new", lambda entry: shown(entry.new), words=True),
    ]
    if any(entry.tag for entry in entries):
        columns.append(Column[E]("tag", lambda entry: shown(entry.tag or ""), words=True))
    return columns


def _name_of(draw: str) -> str:
    """A draw's fingerprint in short: of its traffic, then seed and rows, and strata if there are any."""
    _, traffic, *seed_rows_and_strata = draw.removesuffix("-none").split("-")
    return "-".join([traffic[:6], *seed_rows_and_strata])


def _without_level(looks: Sequence[Look]) -> list[str]:
    """A sentence on each draw that was looked at again, and not with intervals for any number of looks."""
    once = Counter(look.draw for look in looks if look.looks == "once")
    return [
        f"Draw {_name_of(draw)} was looked at {count} times, {once[draw]} of them with an interval for one "
        "look: together these keep no level; use --looks any."
        for draw, count in Counter(look.draw for look in looks).items()
        if count > 1 and once[draw]
    ]


def _verdict(entry: Entry) -> Cell:
    """The verdict, and whether it may be asked again and again."""
    looks = ", any looks" if entry.looks == "any" else ""
    return Cell(entry.verdict + looks, tone=TONES[entry.verdict])
