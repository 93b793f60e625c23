"""Several comparisons with one old model: a row for each, what is to be said of it, the verdict last."""

from __future__ import annotations

from collections.abc import Mapping

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.wording import (
    model_rows,
    sentences_beside_line,
    slices_sentence,
    verdict,
    verdict_line,
)
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Row, Table
from mptctl.report.media.numbers import format_interval, of_count, percent

# States of a gate in the order in which the last line names them.
STATES = ("failed", "undecided", "passed")
# New models of one state that the last line names.
NAMED = 20


def updates_document(reports: Mapping[str, FlipReport]) -> Document:
    """Comparisons with one old model.

    Args:
        reports: by what a person called the new model; two or more.
    """
    every = list(reports.values())
    parts: list[Note | Table] = [Note(f"old  {every[0].old.name}")]
    for warning in dict.fromkeys(warning for report in every for warning in report.warnings):
        of = [name for name, report in reports.items() if warning in report.warnings]
        who = "" if len(of) == len(every) else f" ({', '.join(of)})"
        parts.append(Note(f"Note{who}: {warning}.", "doubt"))
    parts.append(_table(reports))
    for name, report in reports.items():
        parts.append(Note(f"{name}: {verdict_line(report)}", "strong"))
        parts += [Note(text) for text in (*sentences_beside_line(report), slices_sentence(report)) if text]
        parts.append(Note(""))
    line, state = _last_line(reports)
    return Document([*parts, Note(line, TONES[state], whole=True)])


def _table(reports: Mapping[str, FlipReport]) -> Table:
    gated = any(report.gate.checks for report in reports.values())
    titles = ["new", "flips", "NFR", "95 % interval", "error: old", "all", *["gate"] * gated]
    rows: list[Row] = []
    for name, report in reports.items():
        errors = {title: new for title, _, new in model_rows(report)}
        rate, state = report.rates.nfr, verdict(report).state
        rows.append(
            [
                name,
                of_count(rate),
                percent(rate.value),
                format_interval(rate.ci95),
                errors["error, old classes"],
                errors["error, all classes"],
                *[Cell(state, tone=TONES[state])] * gated,
            ]
        )
    return Table([Column(title) for title in titles], rows)


def _last_line(reports: Mapping[str, FlipReport]) -> tuple[str, str]:
    """The verdict on all of them in words, and its state; without a limit, which of them flips least."""
    states = {name: verdict(report).state for name, report in reports.items()}
    groups = [(state, [name for name in reports if states[name] == state]) for state in STATES]
    found = [(state, names) for state, names in groups if names]
    if found:
        return "; ".join(f"{state.upper()}: {some(names, NAMED)}" for state, names in found), found[0][0]
    least = min(report.counts.negative_flips for report in reports.values())
    best = [name for name, report in reports.items() if report.counts.negative_flips == least]
    flips = of_count(reports[best[0]].rates.nfr)
    return f"fewest flips: {some(best, NAMED)}, {flips}", "ungated"
