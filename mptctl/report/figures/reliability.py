"""The reliability diagram: accuracy in each bin of confidence, and below it the bin's samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import Bin
from mptctl.report.figures.shown import ShownFigure
from mptctl.report.media.numbers import percent
from mptctl.report.media.svg import INK, LOST, SIZE, style

CAPTION = (
    "Reliability. Above, bars: share of right predictions among those of a confidence; line: their mean "
    "confidence; between them, the gap; hollow: fewer than 10 samples, which say little. Below: samples of "
    "each bin."
)
# Samples below which a bin stands hollow: of 9 that are all right, the 95 % interval still reaches down to 70
# %.
FEW = 10


class Panel(NamedTuple):
    """One model's diagram.

    Attributes:
        title: above it.
        bins: of equal width.
        colour: of its bars.
    """

    title: str
    bins: list[Bin]
    colour: str


def reliability_words(panels: Sequence[Panel]) -> str:
    """Of each model the bin in which most samples are away from what its confidence says."""
    said = []
    for panel in panels:
        held = [b for b in panel.bins if b.n]
        far = max(held, key=lambda b: b.n * abs((b.accuracy or 0) - (b.confidence or 0)), default=None)
        if far is None:
            said.append(f"{panel.title}: no samples.")
            continue
        few = sum(b.n < FEW for b in held)
        said.append(
            f"{panel.title}: {sum(b.n for b in held):,} samples in {len(held)} bins, {few} of them with "
            f"fewer than {FEW}. What weighs most: of {far.n:,} with confidence {far.low:.2f} to "
            f"{far.high:.2f}, on average {percent(far.confidence, 1)}, {percent(far.accuracy, 1)} are right."
        )
    return "Reliability. " + " ".join(said)


def draw_reliability(panels: list[Panel]) -> Figure:
    """Diagrams side by side, on the same axes."""
    with style():
        figure = ShownFigure(figsize=(SIZE[0], 1.35 * SIZE[1]))
        # Fifteen numbers beside each other need the width.
        axes = figure.subplots(
            2, len(panels), sharex=True, squeeze=False, sharey="row", height_ratios=(2, 1),
            gridspec_kw={"wspace": 0.02},
        )  # fmt: skip
        for above, below, panel in zip(*axes, panels, strict=True):
            _accuracies(above, panel)
            _counts(below, panel)
        axes[1][0].set_yticks([])
    return figure


def _accuracies(axes: Axes, panel: Panel) -> None:
    held = [b for b in panel.bins if b.n]
    middle, width = _places(held)
    accuracy = np.array([b.accuracy for b in held], dtype=np.float64)
    confidence = np.array([b.confidence for b in held], dtype=np.float64)
    bars = axes.bar(middle, accuracy, width, color=panel.colour, alpha=0.6)
    gaps = axes.bar(middle, confidence - accuracy, width, bottom=accuracy, color=LOST, alpha=0.3)
    for b, bar, gap in zip(held, bars, gaps, strict=True):
        if b.n < FEW:
            bar.set(facecolor="none", edgecolor=panel.colour, alpha=1)
            gap.set(facecolor="none", edgecolor=LOST, linestyle=":", alpha=1)
    axes.hlines(confidence, middle - width / 2, middle + width / 2, color=LOST, linewidth=1)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.set_title(f"{panel.title}, accuracy", fontsize=9)


def _counts(axes: Axes, panel: Panel) -> None:
    middle, width = _places(panel.bins)
    axes.bar(middle, [b.n for b in panel.bins], width, color=panel.colour, alpha=0.6)
    for place, b in zip(middle, panel.bins, strict=True):
        if b.n:
            axes.annotate(
                f"{b.n:,}",
                (place, b.n),
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


def _places(bins: list[Bin]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle and width of each bin's bar."""
    low, high = np.array([b.low for b in bins]), np.array([b.high for b in bins])
    return (low + high) / 2, 0.9 * (high - low)
