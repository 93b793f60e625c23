"""The figure of a chain: flips of each generation against the first, new, lasting and healed."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mptctl.evaluation.rates import Rate
from mptctl.report.media.svg import INK, LOST, NEW, OLD, SIZE, style
from mptctl.studies.chain import ChainReport, ChainRow

PANELS_A_ROW = 2
# Inches of a panel, and of what stands beside and above the panels.
WIDTH, HEIGHT, BESIDE, ABOVE = 1.65, 2.1, 0.5, 1.1
# Part of the room of a generation that its bars take.
BARS = 0.7


def draw_chain(report: ChainReport) -> Figure:
    """One panel for each method, one bar for each generation, beside each other for several seeds."""
    names = list(dict.fromkeys(row.name for row in report.rows))
    seeds = list(dict.fromkeys(row.seed for row in report.rows))
    rows, columns = -(-len(names) // PANELS_A_ROW), min(len(names), PANELS_A_ROW)
    with style():
        # The legend has a width of its own, also above a single panel.
        figure = Figure(figsize=(max(SIZE[0], columns * WIDTH + BESIDE), rows * HEIGHT + ABOVE))
        places = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, name in zip(places, names, strict=False):
            _draw(axes, name, [row for row in report.rows if row.name == name], seeds)
        for axes in places[len(names) :]:
            axes.remove()
        for axes in places[: len(names) : PANELS_A_ROW]:
            axes.set_ylabel("test samples, %")
        figure.supxlabel("generation", fontsize=9)
        figure.legend(handles=_looks(), loc="outside upper center")
    return figure


def _draw(axes: Axes, name: str, rows: list[ChainRow], seeds: list[int]) -> None:
    width = BARS / len(seeds)
    for row in rows:
        at = row.generation - BARS / 2 + (seeds.index(row.seed) + 0.5) * width
        new, lasting, healed = (_percent(rate) for rate in (row.new, row.lasting, row.healed))
        axes.bar(at, lasting, width * 0.9, color=OLD)
        axes.bar(at, new, width * 0.9, bottom=lasting, color=LOST)
        axes.bar(at, -healed, width * 0.9, color=NEW)
        # The diamond stands beside the whisker, so that neither hides the other.
        _whisker(axes, at - width * 0.15, row.flips_first)
        _whisker(axes, at + width * 0.25, row.flips_before)
        axes.plot(
            at + width * 0.25, _percent(row.flips_before), marker="D", markersize=4, color="white",
            markeredgecolor=INK, linestyle="",
        )  # fmt: skip
    generations = sorted({row.generation for row in rows})
    classes = {row.generation: row.classes for row in rows}
    axes.set_xticks(generations, [f"{g}\n{classes[g]}\nclasses" for g in generations])
    axes.set_xlim(0.4, max(generations) + 0.6)
    axes.set_title(name, fontsize=9)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.grid(axis="x", visible=False)
    # What is healed hangs below zero, and is no less than nothing.
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")


def _whisker(axes: Axes, at: float, rate: Rate) -> None:
    if rate.ci95 is not None:
        axes.plot([at, at], [100 * end for end in rate.ci95], color=INK, linewidth=1)


def _percent(rate: Rate) -> float:
    return 100 * (rate.value or 0.0)


def _looks() -> list[Patch | Line2D]:
    return [
        Patch(color=LOST, label="new flip against the first"),
        Patch(color=OLD, label="lasting flip against the first"),
        Patch(color=NEW, label="healed (below zero)"),
        Line2D(
            [], [], color="white", marker="D", markersize=4, markeredgecolor=INK, linestyle="",
            label="flips against the one before",
        ),
    ]  # fmt: skip
