"""The page of one model by itself: its figures, its reliability diagram, and both after a temperature."""

from __future__ import annotations

from mptctl.evaluation.calibration_report import CalibrationReport
from mptctl.report.figure_words import reliability_words
from mptctl.report.page import inline_figure, render_page
from mptctl.report.provenance import Provenance
from mptctl.report.reliability import CAPTION, Panel, draw_reliability
from mptctl.report.svg import NEW, OLD, style
from mptctl.report.wording import calibration_lines, calibration_sentences, temperature_title


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
    return render_page(
        "calibration",
        provenance=provenance,
        report=report,
        after=after,
        sentences=calibration_sentences(report),
        lines=calibration_lines(report),
        figures=[inline_figure("reliability", CAPTION, figure, reliability_words(panels))],
    )
