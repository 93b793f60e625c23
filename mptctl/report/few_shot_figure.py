"""How far features keep base and novel classes apart, by the margin of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.files import writing
from mptctl.inference.discriminability import Discriminability
from mptctl.report.svg import NEW, OLD, figure_metadata, style

PANEL = (3.6, 2.9)  # inches


def save_discriminability(runs: Sequence[Discriminability], path: Path) -> None:
    """Draw and write the figure, as the path's suffix says: ``.png`` or ``.svg``.

    Raises:
        StorageError: it cannot be written.
    """
    suffix = path.suffix.lower().removeprefix(".")
    # The same bytes from the same numbers.
    with style(), matplotlib.rc_context({"svg.hashsalt": "mptctl"}), writing(path) as stream:
        draw_discriminability(runs).savefig(
            stream, format=suffix, dpi=200, facecolor="white", metadata=figure_metadata(suffix)
        )


def draw_discriminability(runs: Sequence[Discriminability]) -> Figure:
    """One panel for each kind of head; margin to the right, variance between over within classes upwards."""
    heads = list(dict.fromkeys(run.head for run in runs))
    with style():
        figure = Figure(figsize=(PANEL[0] * len(heads), PANEL[1]))
        for axes, head in zip(figure.subplots(1, len(heads), squeeze=False)[0], heads, strict=True):
            _panel(axes, sorted((run for run in runs if run.head == head), key=lambda run: run.margin))
            axes.set_title(f"{head} head", fontsize=9)
        return figure


def _panel(axes: Axes, runs: Sequence[Discriminability]) -> None:
    looks = (("base classes", "base", OLD, "o"), ("novel classes", "novel", NEW, "^"))
    for label, key, colour, mark in looks:
        found = [(run.margin, spread.ratio) for run in runs if (spread := getattr(run, key)) is not None]
        points = [(margin, ratio) for margin, ratio in found if ratio is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=mark, linewidth=1.2, label=label)
    axes.set_xlabel("margin in training")
    axes.set_ylabel("variance between / within classes")
    axes.set_ylim(bottom=0)
    axes.legend()
