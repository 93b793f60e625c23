"""The figures of a comparison: margins, reliability, flow of flips, free bias, and flips by confidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from mptctl.evaluation.flip_report import FlipReport, SweepPoint
from mptctl.files import OpenOutput, writing
from mptctl.report.figures.reliability import CAPTION, Panel, draw_reliability, reliability_words
from mptctl.report.figures.shown import ShownFigure
from mptctl.report.media.document import Drawing
from mptctl.report.media.numbers import format_count, percent
from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, save_figure, short, style

# Classes on each side of the flow; other answers to them are put together, old and new ones apart.
FLOW_CLASSES = 8
REST = ("other old", "other new")
LABEL_LENGTH = 15
# The largest of a list that are named one by one.
NAMED = 5


@dataclass(frozen=True)
class Plot:
    """A figure of a comparison.

    Attributes:
        name: its id on the page, and its file.
        caption: above it on the page.
        draw: makes it; None where the report has nothing to draw.
        words: text for readers who do not see it.
    """

    name: str
    caption: str
    draw: Callable[[FlipReport], Figure | None]
    words: Callable[[FlipReport], str]


def draw_figures(report: FlipReport) -> dict[str, Figure]:
    """The figures that the report has data for, by name, in the order of `PLOTS`."""
    with style():
        drawn = {plot.name: plot.draw(report) for plot in PLOTS}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def drawings(report: FlipReport) -> list[Drawing]:
    """The same for a page."""
    drawn = draw_figures(report)
    return [
        Drawing(plot.name, plot.caption, plot.words(report), partial(drawn.__getitem__, plot.name))
        for plot in PLOTS
        if plot.name in drawn
    ]


def figure_files() -> list[str]:
    """Names of all files that `save_figures` may write."""
    return [f"{plot.name}.{suffix}" for plot in PLOTS for suffix in ("png", "svg")]


def save_figures(report: FlipReport, folder: Path, open_output: OpenOutput = writing) -> list[Path]:
    """Write every figure as PNG and SVG; the paths written. StorageError where the folder cannot be."""
    paths = []
    for name, figure in draw_figures(report).items():
        for suffix in ("png", "svg"):
            path = folder / f"{name}.{suffix}"
            save_figure(figure, path, open_output)
            paths.append(path)
    return paths


def _canvas(height: float = SIZE[1]) -> tuple[Figure, Axes]:
    figure = ShownFigure(figsize=(SIZE[0], height))
    return figure, figure.add_subplot()


def _margins(report: FlipReport) -> Figure | None:
    if report.margins is None:
        return None
    figure, axes = _canvas()
    edges = np.array(report.margins.edges)
    looks = {("old", "old classes"): OLD, ("new", "old classes"): NEW, ("new", "new classes"): FRESH}
    for group in report.margins.groups:
        colour = looks[group.model, group.samples]
        share = 100 * np.array(group.histogram) / group.n
        label = f"{group.model} model, {group.samples}: {percent(group.negative.value, 1)} below 0"
        axes.stairs(
            share, edges, color=colour, fill=group.model == "old", alpha=0.45 if group.model == "old" else 1
        )
        axes.plot([], [], color=colour, linewidth=3, label=label)
    axes.axvline(0, color=LOST, linewidth=1)
    axes.set(xlabel="logit of the true class minus the best other", ylabel="samples, %")
    axes.margins(y=0.02)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return figure


def _reliability(report: FlipReport) -> Figure | None:
    panels = _panels(report)
    return draw_reliability(panels) if panels else None


def _confidence(report: FlipReport) -> Figure | None:
    rows = [row for row in report.by_confidence or [] if row.flips.of]
    if not rows:
        return None
    figure, axes = _canvas()
    for i, row in enumerate(rows):
        value, (low, high) = row.flips.value or 0.0, row.flips.ci95 or (0.0, 0.0)
        axes.bar(i, 100 * value, color=LOST, width=0.6)
        axes.plot([i, i], [100 * low, 100 * high], color=INK, linewidth=1)
        axes.annotate(
            f"{row.flips.count:,}\nof {row.flips.of:,}",
            (i, 100 * high),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_xticks(range(len(rows)), [f"{row.low:g} to\n{row.high:g}" for row in rows])
    axes.set(xlabel="old model's confidence in its right prediction", ylabel="flipped, %", ylim=(0, None))
    axes.margins(y=0.25)
    axes.grid(axis="x", visible=False)
    return figure


def _bias(report: FlipReport) -> Figure | None:
    if not report.bias_sweep:
        return None
    figure, axes = _canvas()
    for curve in report.bias_sweep:
        colour = NEW if curve.role == "new" else OLD
        x = [100 * point.er_all for point in curve.points]
        y = [100 * point.nfr for point in curve.points]
        whose = "new model" if curve.role == "new" else "plain update"
        axes.plot(x, y, color=colour, linewidth=1.2, label=f"{whose}, shifted")
        axes.scatter(x[:1], y[:1], color=colour, s=40, label=f"{whose} as it is")
    highest = max(point.nfr for curve in report.bias_sweep for point in curve.points)
    axes.set(xlabel="error on all classes, %", ylabel="NFR, %", ylim=(0, 108 * highest or 1))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=2)
    return figure


def _flow(report: FlipReport) -> Figure | None:
    if not report.pairs:
        return None
    sources: Counter[str] = Counter()
    for row in report.pairs:
        sources[row.label] += row.flips
    left = [label for label, _ in sources.most_common(FLOW_CLASSES)]
    rows = [row for row in report.pairs if row.label in left]
    answers: Counter[str] = Counter()
    for row in rows:
        answers[row.answer] += row.flips
    named = {answer for answer, _ in answers.most_common(FLOW_CLASSES)}
    bands: Counter[tuple[str, str]] = Counter()
    fresh: dict[str, bool] = {}
    for row in rows:
        target = row.answer if row.answer in named else REST[row.new_class]
        bands[row.label, target] += row.flips
        fresh[target] = row.new_class
    # The rest below, however large.
    right = [a for a, _ in answers.most_common() if a in named] + [r for r in REST if r in fresh]

    total = sum(bands.values())
    gap = 0.03 * total
    figure, axes = _canvas(height=max(SIZE[1], 0.32 * max(len(left), len(right)) + 0.5))
    tops = [_stack(axes, side, total, gap, bands, which) for which, side in enumerate((left, right))]
    for source in left:
        for target in right:
            flips = bands[source, target]
            if not flips:
                continue
            colour = FRESH if fresh[target] else OLD
            start, end = tops[0][source], tops[1][target]
            tops[0][source] += flips
            tops[1][target] += flips
            axes.add_patch(_band(start, end, flips, colour))
    bottom = max(float(np.asarray(line.get_ydata(), dtype=float).max()) for line in axes.lines)
    axes.set(xlim=(-1, 2), ylim=(bottom + gap, -gap))
    axes.plot([], [], color=OLD, linewidth=5, alpha=0.6, label="to an old class")
    if any(fresh.values()):
        axes.plot([], [], color=FRESH, linewidth=5, alpha=0.6, label="to a new class")
    axes.axis("off")
    if total < report.counts.negative_flips:
        flipped = sum(row.negative_flips > 0 for row in report.per_class)
        of_flips = f"{total:,} of {report.counts.negative_flips:,} flips"
        axes.set_title(f"{len(left)} of {flipped} classes with flips, {of_flips}", fontsize=8)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, borderaxespad=0)
    return figure


def _stack(
    axes: Axes, labels: list[str], total: int, gap: float, bands: Counter[tuple[str, str]], which: int
) -> dict[str, float]:
    """Put one side's classes below each other; where each begins, in flips."""
    top, tops = 0.0, {}
    for label in labels:
        height = sum(flips for pair, flips in bands.items() if pair[which] == label)
        axes.plot([which, which], [top, top + height], color=INK, linewidth=2.5, solid_capstyle="butt")
        axes.text(
            which + (0.04 if which else -0.04),
            top + height / 2,
            f"{short(label, LABEL_LENGTH)} ({height:,})",
            ha="left" if which else "right",
            va="center",
            fontsize=8,
        )
        tops[label] = top
        # Thin classes get room for their line of text.
        top += max(height, 0.045 * total) + gap
    return tops


def _band(start: float, end: float, height: float, colour: str) -> PathPatch:
    corners = [
        (0, start),
        (0.5, start),
        (0.5, end),
        (1, end),
        (1, end + height),
        (0.5, end + height),
        (0.5, start + height),
        (0, start + height),
        (0, start),
    ]
    codes = [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3, Outline.CLOSEPOLY]
    return PathPatch(Outline(corners, codes), facecolor=colour, alpha=0.5, linewidth=0)


def _margins_words(report: FlipReport) -> str:
    said = []
    for group in report.margins.groups if report.margins else ():
        middle = "" if group.quantiles is None else f", median {group.quantiles[2]:.2f}"
        said.append(
            f"{group.model} model on {group.samples}: {group.n:,} samples{middle}, "
            f"{percent(group.negative.value, 1)} below 0 ({format_count(group.negative)})."
        )
    return "Histograms of logit margins. " + " ".join(said)


def _confidence_words(report: FlipReport) -> str:
    rows = [row for row in report.by_confidence or () if row.flips.of]
    said = [
        f"{row.low:g} to {row.high:g}: {percent(row.flips.value, 1)} ({format_count(row.flips)})"
        for row in rows
    ]
    return f"Flipped, by the old model's confidence in its right prediction. {'; '.join(said)}."


def _flow_words(report: FlipReport) -> str:
    largest = [f"{row.label} to {row.answer}: {row.flips:,}" for row in report.pairs[:NAMED]]
    to = report.destinations
    return (
        f"Flow of {report.counts.negative_flips:,} negative flips: {format_count(to.to_old_class)} to old "
        f"classes, {format_count(to.to_new_class)} to new ones. The largest: {'; '.join(largest)}."
    )


def _bias_words(report: FlipReport) -> str:
    said = []
    for curve in report.bias_sweep:
        first, last = curve.points[0], curve.points[-1]
        said.append(
            f"{'new model' if curve.role == 'new' else 'plain update'} as it is: {_point(first)}; shifted by "
            f"{last.bias:.4g}: {_point(last)}."
        )
    return "NFR against error on all classes as the new classes' logits are shifted. " + " ".join(said)


def _point(point: SweepPoint) -> str:
    return f"NFR {percent(point.nfr)}, error {percent(point.er_all)}"


def _reliability_words(report: FlipReport) -> str:
    return reliability_words(_panels(report))


def _panels(report: FlipReport) -> list[Panel]:
    models = ((report.old, "old model", OLD), (report.new, "new model", NEW))
    return [
        Panel(title, model.reliability, colour)
        for model, title, colour in models
        if model.reliability is not None
    ]


PLOTS = (
    Plot(
        "margins",
        "Logit margins before and after. Left of the line the prediction is wrong. 99 % of the margins lie "
        "in the range shown; the outermost bars hold the rest.",
        _margins,
        _margins_words,
    ),
    Plot("reliability", CAPTION, _reliability, _reliability_words),
    Plot(
        "confidence",
        "Flips by how sure the old model was, with 95\u00a0% intervals.",
        _confidence,
        _confidence_words,
    ),
    Plot("flow", "From which class flips came, and which prediction took them.", _flow, _flow_words),
    Plot(
        "bias",
        "What a shift does without training: a constant is subtracted from the new classes' logits. Shifts "
        "are read off the test part.",
        _bias,
        _bias_words,
    ),
)
