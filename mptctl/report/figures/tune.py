"""Draw the figures of a search for k: rates over k, as in the paper's Figure 4, and NFR against error."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from mptctl.evaluation.rates import Rate
from mptctl.report.media.svg import FAINT, FRESH, INK, LOST, NEW, OLD, SIZE, style
from mptctl.tune.space import METHOD, K
from mptctl.tune.tune_report import Trial, TuneReport

# Of the methods of a search in the order of their trials: at most two, MPT with each distance.
COLOURS = (NEW, LOST)
MARKS = ("o", "s")
# More labels beside points than this would lie over each other.
MOST_LABELS = 16


def measured_trials(report: TuneReport) -> list[Trial]:
    """The finished trials that have both validation rates."""
    return [trial for trial in report.trials if trial.status == "done" and trial.val_error and trial.val_nfr]


def searches_k(report: TuneReport) -> bool:
    """Tells whether k was searched in all trials."""
    return all(K in trial.settings for trial in report.trials)


def _methods(report: TuneReport) -> list[str]:
    """The methods of the trials, in their order."""
    return list(dict.fromkeys(str(trial.settings[METHOD]) for trial in report.trials))


def draw_over_k(report: TuneReport) -> Figure:
    """Draw NFR over k, and below it error over k, of the best trial of each k and method."""
    with style():
        figure = Figure(figsize=(SIZE[0], 1.5 * SIZE[1]))
        _draw_over_k(figure, report)
    return figure


def draw_against_error(report: TuneReport) -> Figure:
    """Draw NFR against error, with the Pareto front, the limit and the choice."""
    with style():
        figure = Figure(figsize=SIZE)
        _draw_against_error(figure, report)
    return figure


def draw_both(report: TuneReport) -> Figure:
    """Draw rates over k, and beside them NFR against error; in a search of other keys the latter alone."""
    if not searches_k(report):
        return draw_against_error(report)
    with style():
        figure = Figure(figsize=(2 * SIZE[0], 1.5 * SIZE[1]))
        grid = figure.add_gridspec(1, 2)
        _draw_over_k(figure.add_subfigure(grid[0, 0]), report)
        _draw_against_error(figure.add_subfigure(grid[0, 1]), report)
    return figure


def _draw_over_k(figure: FigureBase, report: TuneReport) -> None:
    """Draw NFR above and error below, a curve for each method, and the limit as a dashed line.

    A curve has the best trial of each k; there are several where other settings were searched too.
    """
    best: dict[tuple[str, float], Trial] = {}
    ranks = {trial.name: _rank(trial, report) for trial in measured_trials(report)}
    for trial in measured_trials(report):
        method_and_k = (str(trial.settings[METHOD]), float(trial.settings[K]))
        if method_and_k not in best or ranks[trial.name] < ranks[best[method_and_k].name]:
            best[method_and_k] = trial
    ks = sorted({k for _, k in best})
    methods = _methods(report)
    above, below = figure.subplots(2, 1, sharex=True)
    for i, method in enumerate(methods):
        trials = [best[method, k] for k in ks if (method, k) in best]
        # Curves are shifted sideways, so that their whiskers stand beside each other.
        shift = 0.12 * (i - (len(methods) - 1) / 2)
        places = [ks.index(float(trial.settings[K])) + shift for trial in trials]
        for axes, rates in (
            (above, [trial.val_nfr for trial in trials]),
            (below, [trial.val_error for trial in trials]),
        ):
            _draw_curve(axes, places, rates, COLOURS[i], MARKS[i], method)
    if report.max_nfr is not None:
        above.axhline(100 * report.max_nfr, color=OLD, linewidth=1, linestyle="--", label="budget")
    elif report.error_bound is not None:
        below.axhline(100 * report.error_bound, color=OLD, linewidth=1, linestyle="--", label="limit")
    below.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
    below.set_xlabel("k, added to the new classes' logits in training")
    above.set_ylabel("NFR, %")
    above.set_ylim(bottom=0)
    below.set_ylabel("error on all classes, %")
    for axes in (above, below):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def _draw_curve(
    axes: Axes, places: Sequence[float], rates: Sequence[Rate | None], colour: str, mark: str, label: str
) -> None:
    """Draw rates in percent, joined by a line, with their 95 % intervals as whiskers.

    Args:
        axes: to draw in.
        places: n places on the x axis.
        rates: n rates; one without a value leaves its place empty.
        colour, mark, label: of the curve.
    """
    values = [_percent(rate) for rate in rates]
    ends = [(0.0, 0.0) if rate is None or rate.ci95 is None else rate.ci95 for rate in rates]
    low = [max(0.0, value - 100 * end[0]) for value, end in zip(values, ends, strict=True)]
    high = [max(0.0, 100 * end[1] - value) for value, end in zip(values, ends, strict=True)]
    axes.errorbar(
        places, values, yerr=[low, high], color=colour, marker=mark, markersize=4,
        linewidth=1.5, elinewidth=0.7, capsize=2, label=label,
    )  # fmt: skip


def _draw_against_error(figure: FigureBase, report: TuneReport) -> None:
    """Draw a point for each trial, labelled by its k if there are few, with front, limit and choice."""
    axes = figure.subplots()
    trials = measured_trials(report)
    front = [_point(report.trial(name)) for name in report.front]
    axes.plot([x for x, _ in front], [y for _, y in front], color=FAINT, linewidth=1.5, zorder=1)
    for method, colour, mark in zip(_methods(report), COLOURS, MARKS, strict=False):
        points = [_point(trial) for trial in trials if trial.settings[METHOD] == method]
        if points:
            axes.scatter(
                [x for x, _ in points], [y for _, y in points], s=18, color=colour, marker=mark, label=method,
                zorder=3,
            )  # fmt: skip
    if report.choice is not None:
        x, y = _point(report.trial(report.choice))
        axes.scatter(
            [x], [y], s=110, facecolors="none", edgecolors=FRESH, linewidths=1.8, label="choice", zorder=2
        )
    if report.max_nfr is not None:
        axes.axhline(100 * report.max_nfr, color=OLD, linewidth=1, linestyle="--", label="budget")
    elif report.error_bound is not None:
        axes.axvline(100 * report.error_bound, color=OLD, linewidth=1, linestyle="--", label="limit")
    if len(trials) <= MOST_LABELS:
        for trial in trials:
            text = f"{float(trial.settings[K]):g}" if searches_k(report) else trial.name
            axes.annotate(
                text, _point(trial), textcoords="offset points", xytext=(5, 4), fontsize=8, color=INK
            )
    axes.set_xlabel("error on all classes, %")
    axes.set_ylabel("NFR, %")
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.05 * (high - low))  # room for the label of the highest point
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def _point(trial: Trial) -> tuple[float, float]:
    """Validation error and NFR in percent; NaN where a rate is missing."""
    return _percent(trial.val_error), _percent(trial.val_nfr)


def _percent(rate: Rate | None) -> float:
    """A rate in percent; NaN, which is not drawn, where the rate or its value is missing."""
    return math.nan if rate is None or rate.value is None else 100 * rate.value


def _rank(trial: Trial, report: TuneReport) -> tuple[bool, float, float]:
    """Key that sorts the best trial first.

    Trials within the limit come first. A limit on error sorts them by NFR, a limit on NFR by error.
    """
    error, nfr = _point(trial)
    is_over = not trial.within_bound
    return (is_over, nfr, error) if report.max_nfr is None else (is_over, error, nfr)
