"""The figures of a search: error and NFR over k, as in the paper's Figure 4, and NFR against error."""

from __future__ import annotations

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mptctl.report.media.svg import FAINT, FRESH, INK, LOST, NEW, OLD, SIZE, style
from mptctl.tune.tune_report import Trial, TuneReport

COLOURS = {"kl": NEW, "lm": LOST}
MARKS = {"kl": "o", "lm": "s"}
# More labels beside points than this would lie over each other.
MOST_LABELS = 16


def measured_trials(report: TuneReport) -> list[Trial]:
    return [t for t in report.trials if t.status == "done" and t.val_error and t.val_nfr]


def draw_panel(draw: Callable[[Axes, TuneReport], None], report: TuneReport) -> Figure:
    """One of the two figures by itself."""
    with style():
        figure = Figure(figsize=SIZE)
        draw(figure.subplots(), report)
    return figure


def draw_both(report: TuneReport) -> Figure:
    """The two figures beside each other."""
    with style():
        figure = Figure(figsize=(2 * SIZE[0], SIZE[1]))
        left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
        draw_over_k(left, report)
        draw_against(right, report)
    return figure


def draw_over_k(axes: Axes, report: TuneReport) -> None:
    """Bars for error, lines for NFR, KL and LM; where more than k was searched, the best trial of each k."""
    best: dict[tuple[str, float], Trial] = {}
    order = {trial.name: _rank(trial, report) for trial in measured_trials(report)}
    for trial in measured_trials(report):
        at = (str(trial.settings["distance"]), float(trial.settings["k"]))
        if at not in best or order[trial.name] < order[best[at].name]:
            best[at] = trial
    ks = sorted({k for _, k in best})
    distances = [d for d in COLOURS if any(distance == d for distance, _ in best)]
    width = 0.8 / len(distances)
    rates = axes.twinx()
    for i, distance in enumerate(distances):
        trials = [(x, best[distance, k]) for x, k in enumerate(ks) if (distance, k) in best]
        places = [x + (i - (len(distances) - 1) / 2) * width for x, _ in trials]
        errors = [100 * (t.val_error.value or 0.0) for _, t in trials if t.val_error]
        nfrs = [100 * (t.val_nfr.value or 0.0) for _, t in trials if t.val_nfr]
        axes.bar(places, errors, width * 0.9, color=COLOURS[distance], alpha=0.3)
        ends = [t.val_nfr.ci95 or (0.0, 0.0) for _, t in trials if t.val_nfr]
        low = [max(0.0, n - 100 * e[0]) for n, e in zip(nfrs, ends, strict=True)]
        high = [max(0.0, 100 * e[1] - n) for n, e in zip(nfrs, ends, strict=True)]
        rates.errorbar(
            places, nfrs, yerr=[low, high], color=COLOURS[distance], marker=MARKS[distance], markersize=4,
            linewidth=1.5, elinewidth=0.7, capsize=2, label=f"NFR, {distance.upper()}",
        )  # fmt: skip
    if report.max_nfr is not None:
        rates.axhline(100 * report.max_nfr, color=OLD, linewidth=1, linestyle="--", label="budget of NFR")
    elif report.error_bound is not None:
        axes.axhline(
            100 * report.error_bound, color=OLD, linewidth=1, linestyle="--", label="bound on the error"
        )
    axes.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
    axes.set_xlabel("k, added to the new classes' logits in training")
    axes.set_ylabel("error, % (bars)")
    axes.grid(axis="x", visible=False)
    rates.set_ylabel("NFR, % (lines)")
    rates.set_ylim(bottom=0)
    rates.grid(visible=False)
    rates.spines["right"].set_visible(True)
    handles = [*rates.get_legend_handles_labels()[0], *axes.get_legend_handles_labels()[0]]
    labels = [*rates.get_legend_handles_labels()[1], *axes.get_legend_handles_labels()[1]]
    # Above the axes, where neither bars nor lines are.
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


def draw_against(axes: Axes, report: TuneReport) -> None:
    """NFR against error, with the Pareto front, the bound and the choice."""
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
                fontsize=7, color=INK,
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
