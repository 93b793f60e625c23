"""Make the document of one model's calibration: its measures, and its bins of confidence."""

from __future__ import annotations

from mptctl.evaluation.calibration.report import CalibrationFigures, CalibrationReport
from mptctl.evaluation.flip_report import Bin
from mptctl.evaluation.statistics import exact_interval
from mptctl.report.media.document import (
    EVERYWHERE,
    ON_PAGE,
    ON_SCREEN,
    Column,
    Document,
    Drawing,
    Note,
    Table,
    notes,
)
from mptctl.report.media.numbers import format_interval, number, percent

FOOTER = "Calibration errors have 15 bins; a bin holds confidences above its lower edge up to its upper one."


def calibration_document(report: CalibrationReport, full: bool = False) -> Document:
    """The document of one model's calibration, before and, where one was fitted, after a temperature.

    Args:
        report: of one model.
        full: a terminal shows the bins of confidence too.
    """
    right = round(report.accuracy * report.n)
    count = f"{right:,} of {report.n:,} test samples of the classes that it knows are right"
    low, high = exact_interval(right, report.n)
    accuracy = f"accuracy {percent(report.accuracy)} (95 % interval {100 * low:.2f} to {100 * high:.2f})"
    title = f"ECE {percent(report.ece)}"
    fitted = []
    bins = [_bins_table(report.reliability, "", full)]
    if report.scaled is not None:
        after = temperature_title(report)
        title += f", {percent(report.scaled.ece)} with {after}"
        bins.append(_bins_table(report.scaled.reliability, after, full))
        fitted = [
            f"Temperature {report.temperature:.4g}, fitted on {report.n_validation:,} validation samples: "
            "logits are divided by it, which changes no prediction."
        ]
    name = f"{report.name} ({report.classes:,} classes)"
    return Document(
        [
            Note(name, media=ON_SCREEN),
            *notes(fitted),
            *notes([f"Note: {warning}." for warning in report.warnings], "doubt"),
            _measures_table(report),
            *bins,
            *notes([] if full else ["--full shows the bins of confidence."], "quiet", ON_SCREEN),
            Note(f"{count}: {accuracy}", "strong", whole=True),
        ],
        title=title,
        subject=name,
        drawings=lambda: _drawings(report),
        footer=FOOTER,
    )


def temperature_title(report: CalibrationReport) -> str:
    """The title of columns and diagrams with a temperature: ``temperature 1.84``; empty without one."""
    return f"temperature {report.temperature:.4g}" if report.temperature is not None else ""


def _measures_table(report: CalibrationReport) -> Table[str]:
    """The error and calibration measures; if a temperature was fitted, a second column has them with it."""
    values = _measures(report, report)
    columns = [
        Column[str]("figure", str),
        Column[str]("value" if report.scaled is None else "as it is", values.__getitem__),
    ]
    if report.scaled is not None:
        columns.append(Column(temperature_title(report), _measures(report, report.scaled).__getitem__))
    return Table(list(values), columns, name="Figures")


def _measures(report: CalibrationReport, calibration: CalibrationFigures) -> dict[str, str]:
    """The error, which no temperature changes, and calibration measures, by name."""
    return {
        "accuracy": percent(report.accuracy),
        "error, all test samples": percent(report.er_all),
        "ECE, 15 bins of equal width": percent(calibration.ece),
        "AECE, 15 bins of equal count": percent(calibration.aece),
        "class-wise ECE": percent(calibration.cwece),
        "maximum calibration error": percent(calibration.mce),
        "negative log-likelihood": number(calibration.nll, ".4f"),
        "Brier score, 0 to 2": number(calibration.brier, ".4f"),
    }


def _bins_table(bins: list[Bin], after: str, full: bool) -> Table[Bin]:
    """A row for each bin of confidence that has samples, with the number of right ones.

    Args:
        bins: of equal width.
        after: title of the temperature that was applied; empty: none was.
        full: every medium shows the table, not only a page.
    """
    name = f"Bins of confidence, {after}" if after else "Bins of confidence"
    return Table(
        [each for each in bins if each.n],
        [
            Column("confidence", lambda row: f"{row.low:.3f} to {row.high:.3f}"),
            Column("mean confidence", lambda row: percent(row.confidence)),
            Column("right", lambda row: f"{_count_right(row):,} / {row.n:,}"),
            Column("share", lambda row: percent(row.accuracy)),
            Column("95 % interval", lambda row: format_interval(exact_interval(_count_right(row), row.n))),
        ],
        title=name if after else "",
        name=name,
        media=EVERYWHERE if full else ON_PAGE,
    )


def _count_right(row: Bin) -> int:
    """The number of right predictions in a bin."""
    return round((row.accuracy or 0.0) * row.n)


def _drawings(report: CalibrationReport) -> list[Drawing]:
    """The figure of reliability; if a temperature was fitted, with a second diagram for it."""
    from mptctl.report.figures.reliability import Panel, reliability_drawings
    from mptctl.report.media.svg import NEW, OLD

    panels = [Panel("as it is", report.reliability, OLD if report.scaled else NEW)]
    if report.scaled is not None:
        panels.append(Panel(temperature_title(report), report.scaled.reliability, NEW))
    return reliability_drawings(panels)
