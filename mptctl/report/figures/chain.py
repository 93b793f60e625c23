"""Draw the figure of a chain: new, lasting and healed flips of each generation against the first."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mptctl.evaluation.rates import Rate
from mptctl.report.media.svg import INK, LOST, NEW, OLD, SIZE, style
from mptctl.studies.chain import ChainReport, ChainRow

PANELS_A_ROW = 2
# Inches of a panel, of the axis label beside the panels and of the legend above them.
WIDTH, HEIGHT, BESIDE, ABOVE = 1.65, 2.1, 0.5, 1.1
# Width of all bars of a generation; generations are 1 apart.
BARS = 0.7


def draw_chain(report: ChainReport) -> Figure:
    """Draw a panel for each method, with a bar for each generation and seed."""
    names = list(dict.fromkeys(row.name for row in report.rows))
    seeds = list(dict.fromkeys(row.seed for row in report.rows))
    rows, columns = math.ceil(len(names) / PANELS_A_ROW), min(len(names), PANELS_A_ROW)
    with style():
        # The legend has a width of its own, also above a single panel.
        figure = Figure(figsize=(max(SIZE[0], columns * WIDTH + BESIDE), rows * HEIGHT + ABOVE))
        places = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, name in zip(places, names, strict=False):
            _draw_panel(axes, name, [row for row in report.rows if row.name == name], seeds)
        for axes in places[len(names) :]:
            axes.remove()
        for axes in places[: len(names) : PANELS_A_ROW]:  # the first of each row
            axes.set_ylabel("test samples, %")
        figure.supxlabel("generation", fontsize=9)
        figure.legend(handles=_legend_handles(), loc="outside upper center")
    return figure


def _draw_panel(axes: Axes, name: str, rows: list[ChainRow], seeds: list[int]) -> None:
    """Draw the bars of one method.

    Lasting and new flips are stacked above zero, healed flips hang below. Whiskers are 95 % intervals of the
    flips against the first generation and, with a diamond, against the one before.
    """
    width = BARS / len(seeds)
    for row in rows:
        x = row.generation - BARS / 2 + (seeds.index(row.seed) + 0.5) * width
        new, lasting, healed = (_percent(rate) for rate in (row.new, row.lasting, row.healed))
        axes.bar(x, lasting, width * 0.9, color=OLD)
        axes.bar(x, new, width * 0.9, bottom=lasting, color=LOST)
        axes.bar(x, -healed, width * 0.9, color=NEW)
        # The diamond stands beside the whisker, so that neither hides the other.
        _draw_whisker(axes, x - width * 0.15, row.flips_first)
        _draw_whisker(axes, x + width * 0.25, row.flips_before)
        axes.plot(
            x + width * 0.25, _percent(row.flips_before), marker="D", markersize=4, color="white",
            markeredgecolor=INK, linestyle="",
        )  # fmt: skip
    generations = sorted({row.generation for row in rows})
    classes = {row.generation: row.classes for row in rows}
    axes.set_xticks(generations, [f"{g}\n{classes[g]}\nclasses" for g in generations])
    axes.set_xlim(0.4, max(generations) + 0.6)
    axes.set_title(name, fontsize=9)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.grid(axis="x", visible=False)
    # Healed flips hang below zero, but their rate is positive.
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")


def _draw_whisker(axes: Axes, x: float, rate: Rate) -> None:
    """Draw the 95 % interval of a rate; nothing where it has none."""
    if rate.ci95 is not None:
        axes.plot([x, x], [100 * end for end in rate.ci95], color=INK, linewidth=1)


def _percent(rate: Rate) -> float:
    """A rate in percent; 0 where it is not defined."""
    return 100 * (rate.value or 0.0)


def _legend_handles() -> list[Patch | Line2D]:
    return [
        Patch(color=LOST, label="new flip against the first"),
        Patch(color=OLD, label="lasting flip against the first"),
        Patch(color=NEW, label="healed (below zero)"),
        Line2D(
            [], [], color="white", marker="D", markersize=4, markeredgecolor=INK, linestyle="",
            label="flips against the one before",
        ),
    ]  # fmt: skip
