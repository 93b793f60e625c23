"""Make the document of one model's calibration: its measures, and its bins of confidence."""

from __future__ import annotations

from mptctl.evaluation.calibration.report import CalibrationReport
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
    fitted, title = [], f"ECE {percent(report.ece)}"
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


def _measures_table(report: CalibrationReport) -> Table[tuple[str, str, str]]:
    """The error and calibration measures; if a temperature was fitted, a second column has them with it."""
    after = report.scaled or report
    rows = [
        ("accuracy", percent(report.accuracy), percent(report.accuracy)),
        ("error, all test samples", percent(report.er_all), percent(report.er_all)),
        ("ECE, 15 bins of equal width", percent(report.ece), percent(after.ece)),
        ("AECE, 15 bins of equal count", percent(report.aece), percent(after.aece)),
        ("class-wise ECE", percent(report.cwece), percent(after.cwece)),
        ("maximum calibration error", percent(report.mce), percent(after.mce)),
        ("negative log-likelihood", number(report.nll, ".4f"), number(after.nll, ".4f")),
        ("Brier score, 0 to 2", number(report.brier, ".4f"), number(after.brier, ".4f")),
    ]
    before = Column[tuple[str, str, str]](
        "value" if report.scaled is None else "as it is", lambda row: row[1]
    )
    scaled = Column[tuple[str, str, str]](temperature_title(report), lambda row: row[2])
    columns = [Column("figure", lambda row: row[0]), before, *([scaled] if report.scaled else [])]
    return Table(rows, columns, name="Figures")


def _bins_table(bins: list[Bin], after: str, full: bool) -> Table[tuple[Bin, int]]:
    """A row for each bin of confidence that has samples, with the number of right ones.

    Args:
        bins: of equal width.
        after: title of the temperature that was applied; empty: none was.
        full: every medium shows the table, not only a page.
    """
    name = f"Bins of confidence, {after}" if after else "Bins of confidence"
    return Table(
        [(each, round(each.accuracy * each.n)) for each in bins if each.n and each.accuracy is not None],
        [
            Column("confidence", lambda row: f"{row[0].low:.3f} to {row[0].high:.3f}"),
            Column("mean confidence", lambda row: percent(row[0].confidence)),
            Column("right", lambda row: f"{row[1]:,} / {row[0].n:,}"),
            Column("share", lambda row: percent(row[0].accuracy)),
            Column("95 % interval", lambda row: format_interval(exact_interval(row[1], row[0].n))),
        ],
        title=name if after else "",
        name=name,
        media=EVERYWHERE if full else ON_PAGE,
    )


def _drawings(report: CalibrationReport) -> list[Drawing]:
    """The figure of reliability; if a temperature was fitted, with a second diagram for it."""
    from mptctl.report.figures.reliability import CAPTION, Panel, draw_reliability
    from mptctl.report.media.svg import NEW, OLD

    panels = [Panel("as it is", report.reliability, OLD if report.scaled else NEW)]
    if report.scaled is not None:
        panels.append(Panel(temperature_title(report), report.scaled.reliability, NEW))
    return [Drawing("reliability", CAPTION, draw_reliability(panels))]
