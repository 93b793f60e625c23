"""The page and the picture of a search."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from mptctl.files import replacing
from mptctl.report.page import inline_figure, render_page
from mptctl.report.svg import SIZE, style
from mptctl.report.tune_figures import draw_against, draw_over_k, measured_trials
from mptctl.report.tune_terminal import sentences
from mptctl.tune.tune_report import TuneReport


def save_tune_figure(report: TuneReport, folder: Path) -> list[Path]:
    """Write ``tune.png`` and ``tune.html``; the paths written, none where no trial has figures.

    Raises:
        StorageError: the folder cannot be written.
    """
    if not measured_trials(report):
        return []
    png, page = folder / "tune.png", folder / "tune.html"
    with style(), replacing(png) as stream:
        figure = Figure(figsize=(2 * SIZE[0], SIZE[1]))
        left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
        draw_over_k(left, report)
        draw_against(right, report)
        figure.savefig(stream, format="png", dpi=200, facecolor="white", metadata={"Software": None})
    with replacing(page) as stream:
        stream.write(render_tune_html(report).encode())
    return [png, page]


def render_tune_html(report: TuneReport) -> str:
    """One page that needs nothing but itself."""
    figures = []
    for name, caption, draw in (
        ("over-k", "Bars: error on all classes. Lines: NFR with its 95 % interval.", draw_over_k),
        ("against", "Every whole trial; the line joins those that no other one beats.", draw_against),
    ):
        with style():
            figure = Figure(figsize=SIZE)
            draw(figure.subplots(), report)
        figures.append(inline_figure(name, caption, figure))
    return render_page("tune", report=report, sentences=sentences(report), figures=figures)
