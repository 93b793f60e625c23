"""The page of one model by itself: its figures, its reliability diagram, and both after a temperature."""

from __future__ import annotations

from mptctl.evaluation.calibration.report import CalibrationReport
from mptctl.report.documents.wording import calibration_lines, calibration_sentences, temperature_title
from mptctl.report.figures.flips_words import reliability_words
from mptctl.report.figures.reliability import CAPTION, Panel, draw_reliability
from mptctl.report.media.numbers import percent
from mptctl.report.media.page import inline_figure
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import NEW, OLD, style
from mptctl.report.media.tables_page import Cell, PageTable, TablesPage


def render_calibration_html(report: CalibrationReport, provenance: Provenance | None = None) -> str:
    """One page that needs nothing but itself.

    Args:
        report: of one model.
        provenance: what the page was made from.
    """
    after = temperature_title(report)
    panels = [Panel("as it is", report.reliability, OLD if report.scaled else NEW)]
    if report.scaled is not None:
        panels.append(Panel(after, report.scaled.reliability, NEW))
    with style():
        figure = draw_reliability(panels)
    title = f"ECE {percent(report.ece)}"
    if report.scaled is not None:
        title += f", {percent(report.scaled.ece)} with {after}"
    return TablesPage(
        title=title,
        sentences=[*calibration_sentences(report), *(f"Note: {warning}." for warning in report.warnings)],
        figures=[inline_figure("reliability", CAPTION, figure, reliability_words(panels))],
        tables=[_figures(report, after), _bins(report, after)],
        footer=(
            "Calibration errors have 15 bins; a bin holds confidences above its lower edge up to its upper one. "
            f"Figures are over {report.n:,} test samples of the classes that the model knows."
        ),
        subject=f"{report.name} ({report.classes:,} classes)",
    ).render(provenance)


def _figures(report: CalibrationReport, after: str) -> PageTable:
    scaled = report.scaled is not None
    rows = [
        [Cell(line.name), Cell(line.before), *[Cell(line.after)] * scaled]
        for line in calibration_lines(report)
    ]
    return PageTable("Figures", ["", "as it is" if scaled else "value", *[after] * scaled], rows)


def _bins(report: CalibrationReport, after: str) -> PageTable:
    heads = ["confidence", "samples", "mean confidence", "right"]
    bins = [report.reliability]
    if report.scaled is not None:
        heads += [f"samples, {after}", "mean confidence", "right"]
        bins.append(report.scaled.reliability)
    rows = []
    for places in zip(*bins, strict=True):
        cells = [f"{places[0].low:.3f} to {places[0].high:.3f}"]
        for b in places:
            cells += [f"{b.n:,}", percent(b.confidence), percent(b.accuracy)]
        rows.append([Cell(text) for text in cells])
    return PageTable("Bins of confidence", heads, rows)
