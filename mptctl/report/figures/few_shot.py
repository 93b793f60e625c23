"""Draw accuracy and separation of base and novel classes over the margin of training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.inference.discriminability import SHOTS, Discriminability
from mptctl.report.media.svg import LOST, NEW, OLD, style

PANEL = (3.6, 2.9)  # inches


def draw_discriminability(runs: Sequence[Discriminability]) -> Figure:
    """Draw a column for each kind of head: above accuracy, below the ratio of variances, over the margin."""
    heads = list(dict.fromkeys(run.head for run in runs))
    with style():
        figure = Figure(figsize=(PANEL[0] * len(heads), PANEL[1] * 2))
        above, below = figure.subplots(2, len(heads), squeeze=False, sharex="col", sharey="row")
        for upper, lower, head in zip(above, below, heads, strict=True):
            by_margin = sorted((run for run in runs if run.head == head), key=lambda run: run.margin)
            _draw_accuracy(upper, by_margin)
            _draw_separation(lower, by_margin)
            upper.set_title(f"{head} head", fontsize=9)
            lower.set_xlabel("margin in training")
        above[0].set_ylabel("accuracy, %")
        below[0].set_ylabel("variance between / within classes")
        return figure


def _draw_accuracy(axes: Axes, runs: Sequence[Discriminability]) -> None:
    """Draw accuracy on base classes, and few-shot accuracy on novel ones with 95 % intervals."""
    margins = [run.margin for run in runs]
    base = [100 * run.base_accuracy for run in runs]
    axes.plot(margins, base, color=OLD, marker="o", linewidth=1.2, label="base classes")
    for colour, mark, shot in zip((NEW, LOST), ("^", "s"), SHOTS, strict=True):
        measured = [run for run in runs if shot in run.novel_accuracy]
        scores = [run.novel_accuracy[shot] for run in measured]
        if scores:
            axes.errorbar(
                [run.margin for run in measured],
                [100 * score.accuracy for score in scores],
                [100 * (score.ci95 or 0.0) for score in scores],
                color=colour, marker=mark, linewidth=1.2, label=f"novel, {shot} shot",
            )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.legend()


def _draw_separation(axes: Axes, runs: Sequence[Discriminability]) -> None:
    """Draw the variance between classes over that within; runs without a ratio are left out."""
    for label, colour, mark, spreads in (
        ("base classes", OLD, "o", [run.base for run in runs]),
        ("novel classes", NEW, "^", [run.novel for run in runs]),
    ):
        points = [
            (run.margin, spread.ratio)
            for run, spread in zip(runs, spreads, strict=True)
            if spread is not None and spread.ratio is not None
        ]
        if points:
            margins, ratios = zip(*points, strict=True)
            axes.plot(margins, ratios, color=colour, marker=mark, linewidth=1.2, label=label)
    axes.set_ylim(bottom=0)
    axes.legend()
