"""Draw the Pareto figure of `adjust`: NFR against error for every shift, with the choice and the limits."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.evaluation.bias.choice import BiasChoice, BiasLine
from mptctl.release.adjust_report import AdjustReport
from mptctl.report.media.svg import INK, LOST, NEW, SIZE, style

# Points of a curve at most; more could not be told apart in the figure.
POINTS = 400


def draw_adjustment(report: AdjustReport, choice: BiasChoice) -> Figure:
    """Draw NFR against error on validation pictures, in percent.

    Args:
        report: the choice and its limits.
        choice: the shifts that were tried, with the rates at each step.
    """
    with style():
        figure = Figure(figsize=(SIZE[0], SIZE[1] + 0.5))
        axes = figure.add_subplot()
        _draw_line(axes, choice.line)
        samples = choice.line.samples
        errors, flips = samples.counts(0.0)  # without a shift
        axes.scatter(
            [100 * errors / len(samples)],
            [100 * flips / samples.n_old],
            color=NEW,
            s=30,
            label="NEW as it was",
            zorder=3,
        )
        after = report.validation
        if after.nfr is not None and after.bound is not None:
            x, y = 100 * after.er_all, 100 * after.nfr
            if report.max_nfr is not None:  # without a limit on NFR the bound had no part in the choice
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


def _draw_line(axes: Axes, line: BiasLine) -> None:
    """Draw the rates of every shift, from no shift to the first one with the fewest flips."""
    # Past the fewest flips a larger shift only adds errors on new classes.
    last = int(line.steps.flips.argmin())
    shown = np.unique(np.linspace(0, last, POINTS).astype(np.int64))
    axes.plot(
        100 * line.wrong[shown] / len(line.samples), 100 * line.steps.flips[shown] / line.samples.n_old,
        color=NEW, linewidth=1.2, label="one shift",
    )  # fmt: skip
