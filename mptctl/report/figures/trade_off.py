"""Draw the figure of a comparison of methods: NFR against error, for every method and seed."""

from __future__ import annotations

from functools import partial

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, shorten, style
from mptctl.studies.comparison import BIAS_ROW, ComparisonRow

# Twenty looks: the colour changes with each row, the marker with every fifth.
COLOURS, MARKS = (OLD, NEW, LOST, FRESH, INK), ("o", "s", "^", "D")
# Letters of a name in the legend, names in one of its rows, and inches of such a row.
LETTERS, ACROSS, ROW = 24, 2, 0.17
# Points squared of a mark of a seed, and of a mean's mark at the cost of a plain training.
SEED_AREA, COST_AREA = 12, 40


def draw_trade_off(rows: list[ComparisonRow]) -> Figure:
    """Draw NFR over error on all classes: a large mark a method, its area by the cost, a small one a seed.

    A row without one of the rates is left out.
    """
    with style():
        figure = Figure(figsize=(SIZE[0], SIZE[1] + ROW * (len(rows) / ACROSS + 1)))
        axes = figure.subplots()
        for i, row in enumerate(rows):
            _draw_row(axes, row, COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)])
        axes.set(xlabel="error on all classes, %", ylabel="NFR, %")
        axes.margins(0.1)
        axes.set_ylim(bottom=0)
        legend = figure.legend(loc="outside upper left", ncols=ACROSS)
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([SEED_AREA])
    return figure


def _draw_row(axes: Axes, row: ComparisonRow, colour: str, marker: str) -> None:
    """Draw the mean and the seeds of a row; hollow for the shifted plain update, which costs no training."""
    if row.er_all.mean is None or row.nfr.mean is None:
        return
    fill = "none" if row.method == BIAS_ROW else colour
    x = 100 * row.er_all.mean
    y = 100 * row.nfr.mean
    seeds = [
        (100 * error, 100 * nfr)
        for error, nfr in zip(row.er_all.values, row.nfr.values, strict=True)
        if error is not None and nfr is not None
    ]
    for error, nfr in seeds:
        axes.plot([x, error], [y, nfr], color=colour, linewidth=0.6, alpha=0.6)
    draw = partial(axes.scatter, facecolors=fill, edgecolors=colour, marker=marker, clip_on=False)
    draw([error for error, _ in seeds], [nfr for _, nfr in seeds], s=SEED_AREA, zorder=4)
    # Small marks lie above large ones, so that none is hidden.
    area = COST_AREA * (1.0 if row.cost is None else row.cost)
    draw([x], [y], s=area, alpha=0.6, zorder=3 - area / 10**6, label=shorten(row.name, LETTERS))
