"""Make the document of several updates of one old model: a row and sentences for each, the verdict last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.gate.history import verdict_of
from mptctl.report.documents.flip_tables import known_error
from mptctl.report.documents.wording import sentences_beside_line, slices_sentence, verdict_line
from mptctl.report.media.document import TONES, Cell, Column, Document, Note, Table
from mptctl.report.media.numbers import format_interval, of_count, percent

# Verdicts in the order of the last line.
VERDICTS = ("failed", "undecided", "passed")
# New models that the last line names of each verdict, at most.
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
    return Document([*parts, _last_line(reports)])


def _updates_table(reports: Mapping[str, FlipReport]) -> Table[str]:
    """NFR and errors of each update by its name, with its verdict where any update has limits."""
    columns: list[Column[str]] = [
        Column("new", str),
        Column("flips", lambda name: of_count(reports[name].rates.nfr)),
        Column("NFR", lambda name: percent(reports[name].nfr)),
        Column("95 % interval", lambda name: format_interval(reports[name].rates.nfr.ci95)),
        Column("error: old", lambda name: percent(reports[name].new.er_old_classes)),
        Column("all", lambda name: percent(known_error(reports[name].new, reports[name].new.er_all))),
    ]
    if any(report.gate.checks for report in reports.values()):
        columns.append(Column("gate", lambda name: _verdict_cell(reports[name]), words=True))
    return Table(list(reports), columns)


def _verdict_cell(report: FlipReport) -> Cell:
    verdict = verdict_of(report.gate)
    return Cell(verdict, tone=TONES[verdict])


def _last_line(reports: Mapping[str, FlipReport]) -> Note:
    """The verdict on all updates, in the colour of the worst; without limits, which updates flip least."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, report in reports.items():
        waivers = " (with waivers)" if report.gate.passed and report.gate.with_waivers else ""
        names[verdict_of(report.gate)].append(name + waivers)
    verdicts = [verdict for verdict in VERDICTS if verdict in names]
    if verdicts:
        groups = [f"{verdict.upper()}: {some(names[verdict], NAMED)}" for verdict in verdicts]
        return Note("; ".join(groups), TONES[verdicts[0]], whole=True)
    fewest = min(report.counts.negative_flips for report in reports.values())
    best = [name for name, report in reports.items() if report.counts.negative_flips == fewest]
    flips = of_count(reports[best[0]].rates.nfr)
    return Note(f"fewest flips: {some(best, NAMED)}, {flips}", TONES["ungated"], whole=True)
