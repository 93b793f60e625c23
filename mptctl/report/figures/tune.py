"""Draw the figures of a search for k: rates over k, as in the paper's Figure 4, and NFR against error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from mptctl.evaluation.rates import Rate
from mptctl.report.media.svg import FAINT, FRESH, INK, LOST, NEW, OLD, SIZE, style
from mptctl.tune.space import METHOD, K
from mptctl.tune.tune_report import Trial, TuneReport

# Of the methods of a search in the order of their trials: at most two, MPT with each distance.
COLOURS = (NEW, LOST)
MARKS = ("o", "s")
LIMIT_LINE: dict[str, Any] = {"color": OLD, "linewidth": 1, "linestyle": "--"}
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
    ranked = sorted(measured_trials(report), key=lambda trial: _rank(trial, report))
    ks = sorted({_k(trial) for trial in ranked})
    methods = _methods(report)
    above, below = figure.subplots(2, 1, sharex=True)
    for i, method in enumerate(methods):
        of_method = [trial for trial in ranked if trial.settings[METHOD] == method]
        best = [next((trial for trial in of_method if _k(trial) == k), None) for k in ks]
        trials = [trial for trial in best if trial is not None]
        # Curves are shifted sideways, so that their whiskers stand beside each other.
        shift = 0.12 * (i - (len(methods) - 1) / 2)
        x = [ks.index(_k(trial)) + shift for trial in trials]
        _draw_curve(above, x, [trial.val_nfr for trial in trials], COLOURS[i], MARKS[i], method)
        _draw_curve(below, x, [trial.val_error for trial in trials], COLOURS[i], MARKS[i], method)
    if report.max_nfr is not None:
        above.axhline(100 * report.max_nfr, label="budget", **LIMIT_LINE)
    elif report.error_bound is not None:
        below.axhline(100 * report.error_bound, label="limit", **LIMIT_LINE)
    below.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
    below.set_xlabel("k, added to the new classes' logits in training")
    above.set_ylabel("NFR, %")
    above.set_ylim(bottom=0)
    below.set_ylabel("error on all classes, %")
    for axes in (above, below):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def _draw_curve(
    axes: Axes, x: Sequence[float], rates: Sequence[Rate | None], colour: str, mark: str, label: str
) -> None:
    """Draw rates in percent, joined by a line, with their 95 % intervals as whiskers.

    Args:
        axes: to draw in.
        x: n positions on the x axis.
        rates: n rates; one without a value leaves its position empty.
        colour, mark, label: of the curve.
    """
    values = [_percent(rate) for rate in rates]
    intervals = [(0.0, 0.0) if rate is None or rate.ci95 is None else rate.ci95 for rate in rates]
    below = [max(0.0, value - 100 * low) for value, (low, _) in zip(values, intervals, strict=True)]
    above = [max(0.0, 100 * high - value) for value, (_, high) in zip(values, intervals, strict=True)]
    axes.errorbar(
        x, values, yerr=[below, above], color=colour, marker=mark, markersize=4,
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
        axes.axhline(100 * report.max_nfr, label="budget", **LIMIT_LINE)
    elif report.error_bound is not None:
        axes.axvline(100 * report.error_bound, label="limit", **LIMIT_LINE)
    for trial in trials if len(trials) <= MOST_LABELS else []:
        text = f"{_k(trial):g}" if searches_k(report) else trial.name
        axes.annotate(text, _point(trial), textcoords="offset points", xytext=(5, 4), fontsize=8, color=INK)
    axes.set_xlabel("error on all classes, %")
    axes.set_ylabel("NFR, %")
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.05 * (high - low))  # room for the label of the highest point
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def _k(trial: Trial) -> float:
    """The k of a trial of a search for k."""
    return float(trial.settings[K])


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
    if report.max_nfr is None:
        return is_over, nfr, error
    return is_over, error, nfr
