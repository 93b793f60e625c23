"""Make the document of several updates of one old model: a row and sentences for each, the verdict last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.flip_tables import known_error
from mptctl.report.documents.wording import (
    sentences_beside_line,
    slices_sentence,
    verdict,
    verdict_line,
)
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Table
from mptctl.report.media.numbers import format_interval, of_count, percent

# States of a gate, in the order of the last line.
STATES = ("failed", "undecided", "passed")
# New models that the last line names of each state, at most.
NAMED = 20


def updates_document(reports: Mapping[str, FlipReport]) -> Document:
    """The document of several updates: warnings, a table, sentences on each update, and the verdict on all.

    Args:
        reports: comparisons with one old model, by the user's name of the new model; at least one.
    """
    all_reports = list(reports.values())
    parts: list[Note | Table[Any]] = [Note(f"old: {all_reports[0].old.name}")]
    for warning in dict.fromkeys(warning for report in all_reports for warning in report.warnings):
        warned = [name for name, report in reports.items() if warning in report.warnings]
        models = "" if len(warned) == len(all_reports) else f" ({', '.join(warned)})"
        parts.append(Note(f"Note{models}: {warning}.", "doubt"))
    parts.append(_updates_table(reports))
    for name, report in reports.items():
        parts.append(Note(f"{name}: {verdict_line(report)}", "strong"))
        parts += [Note(text) for text in (*sentences_beside_line(report), slices_sentence(report)) if text]
        parts.append(Note(""))
    line, state = _last_line(reports)
    return Document([*parts, Note(line, TONES[state], whole=True)])


def _updates_table(reports: Mapping[str, FlipReport]) -> Table[tuple[str, FlipReport]]:
    """NFR and errors of each update, with the state of its gate where any update has limits."""
    gate = Column[tuple[str, FlipReport]]("gate", lambda row: _state_cell(row[1]), words=True)
    return Table(
        list(reports.items()),
        [
            Column("new", lambda row: row[0]),
            Column("flips", lambda row: of_count(row[1].rates.nfr)),
            Column("NFR", lambda row: percent(row[1].nfr)),
            Column("95 % interval", lambda row: format_interval(row[1].rates.nfr.ci95)),
            Column("error: old", lambda row: percent(row[1].new.er_old_classes)),
            Column("all", lambda row: percent(known_error(row[1].new, row[1].new.er_all))),
            *([gate] if any(report.gate.checks for report in reports.values()) else []),
        ],
    )


def _state_cell(report: FlipReport) -> Cell:
    state = verdict(report).state
    return Cell(state, tone=TONES[state])


def _named(name: str, reports: Mapping[str, FlipReport]) -> str:
    """The name of an update, and whether it passes with waivers alone."""
    gate = reports[name].gate
    return f"{name} (with waivers)" if gate.passed and gate.with_waivers else name


def _last_line(reports: Mapping[str, FlipReport]) -> tuple[str, str]:
    """The verdict on all updates in words, and the worst state; without limits, which updates flip least."""
    states = {name: verdict(report).state for name, report in reports.items()}
    present = [state for state in STATES if state in states.values()]
    if present:
        groups = [
            f"{state.upper()}: "
            + some([_named(name, reports) for name in reports if states[name] == state], NAMED)
            for state in present
        ]
        return "; ".join(groups), present[0]
    fewest = min(report.counts.negative_flips for report in reports.values())
    best = [name for name, report in reports.items() if report.counts.negative_flips == fewest]
    flips = of_count(reports[best[0]].rates.nfr)
    return f"fewest flips: {some(best, NAMED)}, {flips}", "ungated"
