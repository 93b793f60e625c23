"""Accuracy on base and novel classes, and how far features keep them apart, by the margin of training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.inference.discriminability import SHOTS, Discriminability
from mptctl.report.media.svg import LOST, NEW, OLD, style

PANEL = (3.6, 2.9)  # inches


def draw_discriminability(runs: Sequence[Discriminability]) -> Figure:
    """A column for each kind of head, by margin: accuracy above, variance between over within below."""
    heads = list(dict.fromkeys(run.head for run in runs))
    with style():
        figure = Figure(figsize=(PANEL[0] * len(heads), PANEL[1] * 2))
        above, below = figure.subplots(2, len(heads), squeeze=False, sharex="col", sharey="row")
        for upper, lower, head in zip(above, below, heads, strict=True):
            ordered = sorted((run for run in runs if run.head == head), key=lambda run: run.margin)
            _accuracy(upper, ordered)
            _spread(lower, ordered)
            upper.set_title(f"{head} head", fontsize=9)
            lower.set_xlabel("margin in training")
        above[0].set_ylabel("accuracy, %")
        below[0].set_ylabel("variance between / within classes")
        return figure


def _accuracy(axes: Axes, runs: Sequence[Discriminability]) -> None:
    margins = [run.margin for run in runs]
    base = [100 * run.base_accuracy for run in runs]
    axes.plot(margins, base, color=OLD, marker="o", linewidth=1.2, label="base classes")
    for colour, mark, shot in zip((NEW, LOST), ("^", "s"), SHOTS, strict=True):
        found = [(run.margin, run.novel_accuracy[shot]) for run in runs if shot in run.novel_accuracy]
        if found:
            axes.errorbar(
                [margin for margin, _ in found],
                [100 * score.accuracy for _, score in found],
                [100 * (score.ci95 or 0.0) for _, score in found],
                color=colour, marker=mark, linewidth=1.2, label=f"novel, {shot} shot",
            )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.legend()


def _spread(axes: Axes, runs: Sequence[Discriminability]) -> None:
    looks = (("base classes", "base", OLD, "o"), ("novel classes", "novel", NEW, "^"))
    for label, key, colour, mark in looks:
        spreads = [(run.margin, getattr(run, key)) for run in runs]
        points = [(margin, spread.ratio) for margin, spread in spreads if spread and spread.ratio is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=mark, linewidth=1.2, label=label)
    axes.set_ylim(bottom=0)
    axes.legend()
