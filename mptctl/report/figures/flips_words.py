"""What is to be seen in each figure of a comparison, in words and numbers, for readers who do not see it."""

from __future__ import annotations

from mptctl.evaluation.flip_report import FlipReport, SweepPoint
from mptctl.report.figures.reliability import Panel, reliability_words
from mptctl.report.media.numbers import format_count, percent

# The largest of a list that are named one by one.
NAMED = 5


def figure_words(report: FlipReport) -> dict[str, str]:
    """A description of each figure that `flips_figures.draw_figures` may draw, by its name."""
    models = (("old model", report.old.reliability), ("new model", report.new.reliability))
    panels = [Panel(title, bins, "") for title, bins in models if bins is not None]
    return {
        "margins": _margins(report),
        "reliability": reliability_words(panels),
        "confidence": _confidence(report),
        "flow": _flow(report),
        "bias": _bias(report),
    }


def _margins(report: FlipReport) -> str:
    said = []
    for group in report.margins.groups if report.margins else ():
        middle = "" if group.quantiles is None else f", median {group.quantiles[2]:.2f}"
        said.append(
            f"{group.model} model on {group.samples}: {group.n:,} samples{middle}, {percent(group.negative.value, 1)} "
            f"below 0 ({format_count(group.negative)})."
        )
    return "Histograms of logit margins. " + " ".join(said)


def _confidence(report: FlipReport) -> str:
    rows = [row for row in report.by_confidence or () if row.flips.of]
    said = [
        f"{row.low:g} to {row.high:g}: {percent(row.flips.value, 1)} ({format_count(row.flips)})"
        for row in rows
    ]
    return f"Flipped, by the old model's confidence in its right prediction. {'; '.join(said)}."


def _flow(report: FlipReport) -> str:
    largest = [f"{row.label} to {row.answer}: {row.flips:,}" for row in report.pairs[:NAMED]]
    to = report.destinations
    return (
        f"Flow of {report.counts.negative_flips:,} negative flips: {format_count(to.to_old_class)} to old classes, "
        f"{format_count(to.to_new_class)} to new ones. The largest: {'; '.join(largest)}."
    )


def _bias(report: FlipReport) -> str:
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
