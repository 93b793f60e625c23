"""Draw reliability diagrams: accuracy in each bin of confidence, and below it the bin's samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import Bin
from mptctl.report.media.document import Drawing
from mptctl.report.media.svg import INK, LOST, SIZE, style

CAPTION = (
    "Reliability. Above, bars: share of right predictions among those of a confidence; line: their mean "
    "confidence; between them, the gap; hollow: fewer than 10 samples, which say little. Below: samples of "
    "each bin."
)
# Bins with fewer samples are drawn hollow: the 95 % interval of 9 right ones of 9 still reaches down to 70 %.
FEW = 10


class Panel(NamedTuple):
    """One model's diagram.

    Attributes:
        title: above the diagram.
        bins: of confidence, of equal width; they may be empty.
        colour: of the bars.
    """

    title: str
    bins: list[Bin]
    colour: str


def draw_reliability(panels: list[Panel]) -> Figure:
    """Draw the diagrams side by side, on the same axes.

    Args:
        panels: at least one.
    """
    with style():
        figure = Figure(figsize=(SIZE[0], 1.35 * SIZE[1]))
        # Hardly any space between panels: each has the numbers of fifteen bins side by side.
        axes = figure.subplots(
            2, len(panels), sharex=True, squeeze=False, sharey="row", height_ratios=(2, 1),
            gridspec_kw={"wspace": 0.02},
        )  # fmt: skip
        for above, below, panel in zip(*axes, panels, strict=True):
            _draw_accuracies(above, panel)
            _draw_counts(below, panel)
        axes[1][0].set_yticks([])
    return figure


def reliability_drawings(panels: list[Panel]) -> list[Drawing]:
    """The figure of a page with these diagrams; no figure without any."""
    return [Drawing("reliability", CAPTION, draw_reliability(panels))] if panels else []


def _draw_accuracies(axes: Axes, panel: Panel) -> None:
    """Draw accuracy as bars, confidence as lines and the gap between them; bins of few samples hollow."""
    filled = [each for each in panel.bins if each.n]
    middle = _middles(filled)
    width = _bar_widths(filled)
    accuracy = np.array([each.accuracy for each in filled], dtype=np.float64)
    confidence = np.array([each.confidence for each in filled], dtype=np.float64)
    bars = axes.bar(middle, accuracy, width, color=panel.colour, alpha=0.6)
    gaps = axes.bar(middle, confidence - accuracy, width, bottom=accuracy, color=LOST, alpha=0.3)
    for each, bar, gap in zip(filled, bars, gaps, strict=True):
        if each.n < FEW:
            bar.set(facecolor="none", edgecolor=panel.colour, alpha=1)
            gap.set(facecolor="none", edgecolor=LOST, linestyle=":", alpha=1)
    axes.hlines(confidence, middle - width / 2, middle + width / 2, color=LOST, linewidth=1)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.set_title(f"{panel.title}, accuracy", fontsize=9)


def _draw_counts(axes: Axes, panel: Panel) -> None:
    """Draw the number of samples in each bin, above its bar also in digits."""
    middle = _middles(panel.bins)
    axes.bar(middle, [each.n for each in panel.bins], _bar_widths(panel.bins), color=panel.colour, alpha=0.6)
    for x, each in zip(middle, panel.bins, strict=True):
        if each.n:
            axes.annotate(
                f"{each.n:,}",
                (x, each.n),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=8,
            )
    axes.margins(y=0.9)
    axes.set_title("samples", fontsize=9)
    axes.set(xlabel="confidence", xticks=(0, 0.5, 1))
    axes.grid(axis="x", visible=False)


def _middles(bins: list[Bin]) -> NDArray[np.float64]:
    """The middle of each bin, as confidence."""
    return np.array([(each.low + each.high) / 2 for each in bins])


def _bar_widths(bins: list[Bin]) -> NDArray[np.float64]:
    """The width of each bin's bar, as confidence: 90 % of the bin."""
    return np.array([0.9 * (each.high - each.low) for each in bins])
