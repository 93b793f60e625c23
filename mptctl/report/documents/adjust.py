"""The choice of `adjust`, in the words of the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from mptctl.errors import some, visible
from mptctl.release.adjust_report import AdjustReport, Chosen
from mptctl.report.documents.class_names import class_name
from mptctl.report.media.numbers import number, percent


def describe_adjustment(report: AdjustReport, labels: Mapping[str, str] | None = None) -> list[str]:
    """The choice and what it does on validation pictures, a line each.

    Args:
        report: what was chosen.
        labels: names for people by class id.
    """
    after, before = report.validation, report.before
    lines = [f"shift      {_taken_off(report.chosen, labels or {})}"]
    if report.chosen.temperature != 1.0:
        lines.append(
            f"divided by {report.chosen.temperature:.4g}, the temperature; "
            f"NLL {number(before.nll, '.4g')} -> {number(after.nll, '.4g')}"
        )
    if after.nfr is not None:
        held = ""
        if report.max_nfr is not None:
            held = f" (at most {percent(after.bound)} with {100 * report.confidence:g} % confidence)"
        lines.append(
            f"NFR        {percent(before.nfr)} -> {percent(after.nfr)}, {after.flips:,} of "
            f"{after.samples_old:,} validation pictures of old classes{held}"
        )
    if after.nfr is not None and report.max_nfr is not None:
        lines.append(f"promise    {_promise(report)}")
    lines.append(
        f"error      {percent(before.er_all)} -> {percent(after.er_all)}, "
        f"{after.errors:,} of {after.samples:,} validation pictures"
    )
    return lines


def _promise(report: AdjustReport) -> str:
    """Of which choices the confidence is, and what to do for one more."""
    left = 1 - report.confidence
    chosen = f"the choice of best.pt among {report.epochs:,} epochs counted; " if report.epochs > 1 else ""
    return (
        f"{chosen}for this update alone: to choose among N, adjust each with --confidence 1 - {left:g} / N "
        f"({1 - left / 3:.4g} for 3)"
    )


def _taken_off(chosen: Chosen, labels: Mapping[str, str]) -> str:
    if chosen.kind == "none":
        return "nothing: no shift does better"
    if chosen.kind == "bias":
        return f"{chosen.bias:.4g}, subtracted from the logits of {len(chosen.biases)} new classes"
    most = sorted(chosen.biases.items(), key=lambda each: -each[1])
    each = some(f"{bias:.3g} {visible(class_name(labels, name))}" for name, bias in most)
    return f"{each}; a constant for each of {len(most)} new classes"
