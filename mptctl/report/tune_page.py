"""The page and the picture of a search."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from mptctl import __version__
from mptctl.files import replacing
from mptctl.report.svg import SIZE, inline_svg, style
from mptctl.report.tune_figures import draw_against, draw_over_k, measured_trials
from mptctl.report.tune_terminal import sentences
from mptctl.report.wording import format_count, format_interval, percent
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
    environment = Environment(
        loader=PackageLoader("mptctl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "span": format_interval, "ratio": format_count}
    figures = []
    for name, caption, draw in (
        ("over-k", "Bars: error on all classes. Lines: NFR with its 95% interval.", draw_over_k),
        ("against", "Every whole trial; the line joins those that no other one beats.", draw_against),
    ):
        with style():
            figure = Figure(figsize=SIZE)
            draw(figure.subplots(), report)
        figures.append((name, caption, Markup(inline_svg(name, figure))))
    return environment.get_template("tune.html.j2").render(
        report=report, sentences=sentences(report), figures=figures, version=__version__
    )
