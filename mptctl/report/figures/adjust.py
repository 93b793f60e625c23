"""The Pareto figure of `adjust`: NFR against error for every bias, with the choice and the budget."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.evaluation.bias.choice import BiasChoice, BiasLine
from mptctl.evaluation.bias.mixture import Mixture
from mptctl.release.adjust_report import AdjustReport
from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, style

# More steps of a curve than a figure can show.
POINTS = 400
LOOKS = {"bias": (NEW, "one shift"), "per-class": (FRESH, "a shift for each class, on one half")}


def draw_adjustment(report: AdjustReport, choice: BiasChoice, mixture: Mixture | None) -> Figure:
    """NFR against error on validation pictures, in percent.

    Args:
        report: what was chosen.
        choice: the directions that were looked at.
        mixture: two models at inference, for comparison; None where it is not known.
    """
    with style():
        figure = Figure(figsize=(SIZE[0], SIZE[1] + 0.5))
        axes = figure.add_subplot()
        for line in choice.lines:
            _curve(axes, line)
        whole = choice.lines[0].samples
        if mixture is not None:
            axes.plot(
                100 * np.array(mixture.errors) / len(whole), 100 * np.array(mixture.flips) / whole.n_old,
                color=OLD, linewidth=1, linestyle=":", label="both models, twice the cost at inference",
            )  # fmt: skip
        errors, flips = whole.counts(np.zeros(len(whole.is_new)))
        axes.scatter(
            [100 * errors / len(whole)],
            [100 * flips / whole.n_old],
            color=NEW,
            s=30,
            label="NEW as it was",
            zorder=3,
        )
        after = report.validation
        if after.nfr is not None and after.bound is not None:
            x, y = 100 * after.er_all, 100 * after.nfr
            if report.max_nfr is not None:  # elsewhere the bound was not what chose
                axes.plot(
                    [x, x], [y, 100 * after.bound], color=INK, linewidth=1, label="up to its upper bound"
                )
            axes.scatter(
                [x], [y], s=90, facecolors="none", edgecolors=LOST, linewidths=1.8, label="choice", zorder=4
            )
        if report.max_nfr is not None:
            axes.axhline(100 * report.max_nfr, color=LOST, linewidth=1, linestyle="--", label="limit")
        if report.max_er_increase is not None:
            limit = 100 * (report.before.er_all + report.max_er_increase)
            axes.axvline(limit, color=LOST, linewidth=1, linestyle="--", label="limit")
        axes.set(xlabel="validation error on all classes, %", ylabel="validation NFR, %")
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=2)
    return figure


def _curve(axes: Axes, line: BiasLine) -> None:
    colour, label = LOOKS[line.kind]
    # Past the least NFR a larger bias costs errors alone, up to those on all new classes.
    last = int(line.steps.flips.argmin())
    shown = np.unique(np.linspace(0, last, POINTS).astype(np.int64))
    axes.plot(
        100 * line.wrong[shown] / len(line.samples), 100 * line.steps.flips[shown] / line.samples.n_old,
        color=colour, linewidth=1.2, label=label,
    )  # fmt: skip
