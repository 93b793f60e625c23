"""Draw the figures of a comparison: margins, reliability, flips by confidence, shift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.figures.reliability import CAPTION, Panel, draw_reliability
from mptctl.report.figures.shown import ShownFigure
from mptctl.report.media.document import Drawing
from mptctl.report.media.numbers import percent
from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, style


@dataclass(frozen=True)
class Plot:
    """A kind of figure of a comparison.

    Attributes:
        name: id of the figure on a page.
        caption: above the figure on a page.
        draw: draws the figure of a report; returns None where the report has no data for it.
    """

    name: str
    caption: str
    draw: Callable[[FlipReport], Figure | None]


def drawings(report: FlipReport) -> list[Drawing]:
    """Draw the figures that the report has data for, in the order of `PLOTS`."""
    with style():
        figures = [(plot, plot.draw(report)) for plot in PLOTS]
    return [Drawing(plot.name, plot.caption, figure) for plot, figure in figures if figure is not None]


def _canvas() -> tuple[Figure, Axes]:
    """An empty figure of the usual size, and its axes."""
    figure = ShownFigure(figsize=SIZE)
    return figure, figure.add_subplot()


def _draw_margins(report: FlipReport) -> Figure | None:
    """Histograms of the logit margins of both models; None where the report has no margins."""
    if report.margins is None:
        return None
    figure, axes = _canvas()
    edges = np.array(report.margins.edges)
    looks = {("old", "old classes"): OLD, ("new", "old classes"): NEW, ("new", "new classes"): FRESH}
    for group in report.margins.groups:
        colour = looks[group.model, group.samples]
        share = 100 * np.array(group.histogram) / group.n
        label = f"{group.model} model, {group.samples}: {percent(group.negative.value, 1)} below 0"
        is_old = group.model == "old"
        axes.stairs(share, edges, color=colour, fill=is_old, alpha=0.45 if is_old else 1)
        axes.plot([], [], color=colour, linewidth=3, label=label)
    axes.axvline(0, color=LOST, linewidth=1)
    axes.set(xlabel="logit of the true class minus the best other", ylabel="samples, %")
    axes.margins(y=0.02)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return figure


def _draw_reliability(report: FlipReport) -> Figure | None:
    """Reliability diagrams of both models; None where the report has neither."""
    models = ((report.old, "old model", OLD), (report.new, "new model", NEW))
    panels = [Panel(title, model.reliability, colour) for model, title, colour in models if model.reliability]
    return draw_reliability(panels) if panels else None


def _draw_confidence(report: FlipReport) -> Figure | None:
    """Share of flips by the old model's confidence; None where the report has no confidences."""
    rows = [row for row in report.by_confidence or [] if row.flips.of]
    if not rows:
        return None
    figure, axes = _canvas()
    for i, row in enumerate(rows):
        low, high = row.flips.ci95 or (0.0, 0.0)
        axes.bar(i, 100 * (row.flips.value or 0.0), color=LOST, width=0.6)
        axes.plot([i, i], [100 * low, 100 * high], color=INK, linewidth=1)
        axes.annotate(
            f"{row.flips.count:,}\nof {row.flips.of:,}",
            (i, 100 * high),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_xticks(range(len(rows)), [f"{row.low:g} to\n{row.high:g}" for row in rows])
    axes.set(xlabel="old model's confidence in its right prediction", ylabel="flipped, %", ylim=(0, None))
    axes.margins(y=0.25)
    axes.grid(axis="x", visible=False)
    return figure


def _draw_shift(report: FlipReport) -> Figure | None:
    """NFR against error as the new classes' logits are shifted; None where the report has no sweep."""
    if not report.bias_sweep:
        return None
    figure, axes = _canvas()
    x = [100 * point.er_all for point in report.bias_sweep]
    y = [100 * point.nfr for point in report.bias_sweep]
    axes.plot(x, y, color=NEW, linewidth=1.2, label="new model, shifted")
    axes.scatter(x[:1], y[:1], color=NEW, s=40, label="new model as it is")
    top = 1.08 * max(y) or 1  # 8 % above the highest point; without flips the axis still needs a height
    axes.set(xlabel="error on all classes, %", ylabel="NFR, %", ylim=(0, top))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=2)
    return figure


PLOTS = (
    Plot(
        "margins",
        "Logit margins before and after. Left of the line the prediction is wrong. 99 % of the margins lie "
        "in the range shown; the outermost bars hold the rest.",
        _draw_margins,
    ),
    Plot("reliability", CAPTION, _draw_reliability),
    Plot(
        "confidence",
        "Flips by how sure the old model was, with 95\u00a0% intervals.",
        _draw_confidence,
    ),
    Plot(
        "bias",
        "What a shift does without training: a constant is subtracted from the new classes' logits. Shifts "
        "are read off the test part.",
        _draw_shift,
    ),
)
