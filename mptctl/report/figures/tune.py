"""The figures of a search: error and NFR over k, as in the paper's Figure 4, and NFR against error."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from mptctl.evaluation.rates import Rate
from mptctl.report.media.svg import FAINT, FRESH, INK, LOST, NEW, OLD, SIZE, style
from mptctl.tune.tune_report import Trial, TuneReport

COLOURS = {"kl": NEW, "lm": LOST}
MARKS = {"kl": "o", "lm": "s"}
# More labels beside points than this would lie over each other.
MOST_LABELS = 16


def measured_trials(report: TuneReport) -> list[Trial]:
    return [t for t in report.trials if t.status == "done" and t.val_error and t.val_nfr]


def draw_over_k(report: TuneReport) -> Figure:
    """NFR and error over k, one above the other."""
    with style():
        figure = Figure(figsize=(SIZE[0], 1.5 * SIZE[1]))
        _over_k(figure, report)
    return figure


def draw_against(report: TuneReport) -> Figure:
    """NFR against error, with the Pareto front, the bound and the choice."""
    with style():
        figure = Figure(figsize=SIZE)
        _against(figure, report)
    return figure


def draw_both(report: TuneReport) -> Figure:
    """The two figures beside each other."""
    with style():
        figure = Figure(figsize=(2 * SIZE[0], 1.5 * SIZE[1]))
        grid = figure.add_gridspec(1, 2)
        _over_k(figure.add_subfigure(grid[0, 0]), report)
        _against(figure.add_subfigure(grid[0, 1]), report)
    return figure


def _over_k(figure: FigureBase, report: TuneReport) -> None:
    """NFR above, error below, KL and LM; where more than k was searched, the best trial of each k."""
    best: dict[tuple[str, float], Trial] = {}
    order = {trial.name: _rank(trial, report) for trial in measured_trials(report)}
    for trial in measured_trials(report):
        at = (str(trial.settings["distance"]), float(trial.settings["k"]))
        if at not in best or order[trial.name] < order[best[at].name]:
            best[at] = trial
    ks = sorted({k for _, k in best})
    distances = [d for d in COLOURS if any(distance == d for distance, _ in best)]
    above, below = figure.subplots(2, 1, sharex=True)
    for i, distance in enumerate(distances):
        trials = [best[distance, k] for k in ks if (distance, k) in best]
        beside = 0.12 * (i - (len(distances) - 1) / 2)
        places = [ks.index(float(trial.settings["k"])) + beside for trial in trials]
        _whiskers(above, places, [trial.val_nfr for trial in trials if trial.val_nfr], distance)
        _whiskers(below, places, [trial.val_error for trial in trials if trial.val_error], distance)
    if report.max_nfr is not None:
        above.axhline(100 * report.max_nfr, color=OLD, linewidth=1, linestyle="--", label="budget")
    elif report.error_bound is not None:
        below.axhline(100 * report.error_bound, color=OLD, linewidth=1, linestyle="--", label="bound")
    below.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
    below.set_xlabel("k, added to the new classes' logits in training")
    above.set_ylabel("NFR, %")
    above.set_ylim(bottom=0)
    below.set_ylabel("error on all classes, %")
    for axes in (above, below):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def _whiskers(axes: Axes, places: list[float], rates: list[Rate], distance: str) -> None:
    """Rates in percent, joined, with their intervals."""
    values = [100 * (rate.value or 0.0) for rate in rates]
    ends = [rate.ci95 or (0.0, 0.0) for rate in rates]
    low = [max(0.0, value - 100 * end[0]) for value, end in zip(values, ends, strict=True)]
    high = [max(0.0, 100 * end[1] - value) for value, end in zip(values, ends, strict=True)]
    axes.errorbar(
        places, values, yerr=[low, high], color=COLOURS[distance], marker=MARKS[distance], markersize=4,
        linewidth=1.5, elinewidth=0.7, capsize=2, label=distance.upper(),
    )  # fmt: skip


def _against(figure: FigureBase, report: TuneReport) -> None:
    axes = figure.subplots()
    trials = measured_trials(report)
    front = [_point(report.trial(name)) for name in report.front]
    axes.plot([x for x, _ in front], [y for _, y in front], color=FAINT, linewidth=1.5, zorder=1)
    for distance, colour in COLOURS.items():
        points = [_point(t) for t in trials if t.settings["distance"] == distance]
        if points:
            axes.scatter(
                [x for x, _ in points], [y for _, y in points], s=18, color=colour, marker=MARKS[distance],
                label=distance.upper(), zorder=3,
            )  # fmt: skip
    if report.choice is not None:
        x, y = _point(report.trial(report.choice))
        axes.scatter(
            [x], [y], s=110, facecolors="none", edgecolors=FRESH, linewidths=1.8, label="choice", zorder=2
        )
    if report.max_nfr is not None:
        axes.axhline(100 * report.max_nfr, color=OLD, linewidth=1, linestyle="--", label="budget")
    elif report.error_bound is not None:
        axes.axvline(100 * report.error_bound, color=OLD, linewidth=1, linestyle="--", label="bound")
    if len(trials) <= MOST_LABELS:
        for trial in trials:
            axes.annotate(
                f"{float(trial.settings['k']):g}", _point(trial), textcoords="offset points", xytext=(5, 4),
                fontsize=8, color=INK,
            )  # fmt: skip
    axes.set_xlabel("error on all classes, %")
    axes.set_ylabel("NFR, %")
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.05 * (high - low))  # room for the label of the highest point
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def _point(trial: Trial) -> tuple[float, float]:
    error, nfr = trial.val_error, trial.val_nfr
    return (
        100 * error.value if error and error.value is not None else math.nan,
        100 * nfr.value if nfr and nfr.value is not None else math.nan,
    )


def _rank(trial: Trial, report: TuneReport) -> tuple[bool, float, float]:
    """Trials within the limit first, then by NFR and error, or with a limit on NFR by error and NFR."""
    x, y = _point(trial)
    return (not trial.within_bound, y, x) if report.max_nfr is None else (not trial.within_bound, x, y)
