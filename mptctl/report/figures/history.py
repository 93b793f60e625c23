"""Draw the figure of a history: NFR of each release with its interval."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mptctl.evaluation.gate.history import Release
from mptctl.report.media.svg import FAINT, FRESH, INK, LOST, NEW, OLD, style

COLOURS = {"passed": NEW, "failed": LOST, "undecided": FRESH, "ungated": OLD}
# Dates below the axis at most, so that they do not touch each other.
DATES = 8


def draw_history(releases: list[Release]) -> Figure:
    """Draw a point for each release in their order, coloured by its verdict, with a 95 % interval.

    Args:
        releases: at least one.
    """
    with style():
        figure = Figure(figsize=(6.2, 3.1))
        axes = figure.subplots()
        axes.plot(range(len(releases)), [100 * r.nfr for r in releases], color=FAINT, linewidth=1, zorder=1)
        for place, release in enumerate(releases):
            colour = COLOURS[release.verdict]
            axes.plot([place, place], [100 * end for end in release.nfr_ci95], color=colour, linewidth=1)
            axes.plot(place, 100 * release.nfr, marker="o", markersize=5, color=colour, linestyle="")
        dated = range(0, len(releases), math.ceil(len(releases) / DATES))
        axes.set_xticks(dated, [releases[place].date.isoformat() for place in dated], fontsize=7)
        axes.set_xlim(-0.5, len(releases) - 0.5)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("NFR, %")
        axes.grid(axis="x", visible=False)
        verdicts = dict.fromkeys(release.verdict for release in releases)
        handles = [
            Line2D([], [], color=COLOURS[verdict], marker="o", markersize=5, linewidth=1, label=verdict)
            for verdict in verdicts
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=4, labelcolor=INK)
    return figure
