"""Describe the choice of `adjust` in lines for a terminal."""

from __future__ import annotations

from mptctl.release.adjust_report import AdjustReport, Chosen
from mptctl.report.media.numbers import number, percent


def describe_adjustment(report: AdjustReport) -> list[str]:
    """The lines on a choice: shift, temperature, NFR, promise and error, before and after.

    Lines on temperature, NFR and promise are left out where they do not apply.

    Args:
        report: of the choice; rates are of validation pictures.
    """
    after, before = report.validation, report.before
    lines = [f"shift      {_shift_words(report.chosen)}"]
    if report.chosen.temperature != 1.0:
        lines.append(
            f"divided by {report.chosen.temperature:.4g}, the temperature; "
            f"NLL {number(before.nll, '.4g')} -> {number(after.nll, '.4g')}"
        )
    if after.nfr is not None:
        nfr = (
            f"NFR        {percent(before.nfr)} -> {percent(after.nfr)}, {after.flips:,} of "
            f"{after.samples_old:,} validation pictures of old classes"
        )
        if report.max_nfr is None:
            lines.append(nfr)
        else:
            bound = f"at most {percent(after.bound)} with {100 * report.confidence:.10g} % confidence"
            lines += [f"{nfr} ({bound})", f"promise    {_promise_words(report)}"]
    lines.append(
        f"error      {percent(before.er_all)} -> {percent(after.er_all)}, "
        f"{after.errors:,} of {after.samples:,} validation pictures"
    )
    return lines


def _promise_words(report: AdjustReport) -> str:
    """The choices that the confidence covers, and the confidence to ask for when choosing among updates."""
    risk = 1 - report.confidence
    epochs = f"the choice of best.pt among {report.epochs:,} epochs counted; " if report.epochs > 1 else ""
    return f"{epochs}for this update alone: to choose among N, adjust each with --confidence 1 - {risk:g} / N"


def _shift_words(chosen: Chosen) -> str:
    """The constant that is subtracted from the logits of new classes."""
    if chosen.kind == "none":
        return "nothing: no shift does better"
    return f"{chosen.bias:.4g}, subtracted from the logits of {len(chosen.biases)} new classes"
