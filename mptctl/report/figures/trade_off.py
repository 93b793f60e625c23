"""The figure of a comparison: NFR against error, for every method and seed."""

from __future__ import annotations

import math

from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, short, style
from mptctl.studies.comparison import BIAS_ROW, ComparisonRow

# Twenty looks: the colour changes first, the mark with every fifth row.
COLOURS, MARKS = (OLD, NEW, LOST, FRESH, INK), ("o", "s", "^", "D")
# Columns of the legend, letters of its labels, and inches of one of its rows.
LEGEND_COLUMNS, LEGEND_LETTERS, LEGEND_ROW = 2, 24, 0.17
# Points squared of a seed's mark, of a legend's, and of the mean's mark by plain training's cost.
SEED_AREA, LEGEND_AREA, COST_AREA = 12, 50, 40


def draw_trade_off(rows: list[ComparisonRow]) -> Figure:
    """NFR over error on all classes, for every method and seed."""
    with style():
        figure = Figure(figsize=(SIZE[0], SIZE[1] + LEGEND_ROW * math.ceil(len(rows) / LEGEND_COLUMNS)))
        axes = figure.subplots()
        looks = {row.name: (COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)])
                 for i, row in enumerate(row for row in rows if row.method != BIAS_ROW)}  # fmt: skip
        for row in rows:
            means = row.er_all.mean, row.nfr.mean
            if means[0] is None or means[1] is None:
                continue
            # What is free stands hollow, in the look of the plain update that it was made from.
            colour, marker = looks.get(row.name) or next(iter(looks.values()))
            fill = "none" if row.method == BIAS_ROW else colour
            x, y = 100 * means[0], 100 * means[1]
            for error, nfr in zip(row.er_all.values, row.nfr.values, strict=True):
                if error is not None and nfr is not None:
                    axes.plot([x, 100 * error], [y, 100 * nfr], color=colour, linewidth=0.6, alpha=0.6)
                    axes.scatter(
                        [100 * error], [100 * nfr], s=SEED_AREA, facecolors=fill, edgecolors=colour,
                        marker=marker, linewidths=0.8, clip_on=False, zorder=4,
                    )  # fmt: skip
            # Cheap ones above costly ones, so that none lies hidden.
            area = COST_AREA * (1.0 if row.cost is None else row.cost)
            axes.scatter(
                [x], [y], s=area, facecolors=fill, edgecolors=colour, marker=marker, clip_on=False,
                label=short(row.name, LEGEND_LETTERS), alpha=0.6, zorder=3 - area / 10**6,
            )  # fmt: skip
        axes.set(xlabel="error on all classes, %", ylabel="NFR, %")
        axes.margins(x=0.1, y=0.1)
        axes.set_ylim(bottom=0)
        legend = axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=LEGEND_COLUMNS, borderaxespad=0.2)
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([LEGEND_AREA])
                handle.set_alpha(1.0)
    return figure
