"""The page and the picture of a search."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from mptctl.files import replacing
from mptctl.report.page import inline_figure, render_page
from mptctl.report.provenance import Provenance
from mptctl.report.svg import SIZE, style
from mptctl.report.tune_figures import draw_against, draw_over_k, measured_trials
from mptctl.report.tune_terminal import sentences
from mptctl.report.wording import percent
from mptctl.tune.tune_report import TuneReport


def save_tune_figure(
    report: TuneReport, folder: Path, provenance: Provenance | None = None
) -> list[Path]:
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
        stream.write(render_tune_html(report, provenance).encode())
    return [png, page]


def _seen(name: str, report: TuneReport) -> str:
    """Every point of a figure, in words and numbers."""
    points = [
        f"{trial.name}: error {percent(trial.val_error.value)}, NFR {percent(trial.val_nfr.value)}"
        for trial in measured_trials(report)
        if trial.val_error and trial.val_nfr
    ]
    bound = f"Bound on the error {percent(report.error_bound)}; choice: {report.choice or 'none'}."
    title = "Error and NFR of each trial" if name == "over-k" else "NFR against error of each trial"
    return f"{title}. {'; '.join(points)}. {bound}"


def render_tune_html(report: TuneReport, provenance: Provenance | None = None) -> str:
    """One page that needs nothing but itself.

    Args:
        report: the search.
        provenance: what the page was made from.
    """
    figures = []
    for name, caption, draw in (
        ("over-k", "Bars: error on all classes. Lines: NFR with its 95 % interval.", draw_over_k),
        ("against", "Every whole trial; the line joins those that no other one beats.", draw_against),
    ):
        with style():
            figure = Figure(figsize=SIZE)
            draw(figure.subplots(), report)
        figures.append(inline_figure(name, caption, figure, _seen(name, report)))
    return render_page("tune", provenance=provenance, report=report, sentences=sentences(report), figures=figures)
