"""One model's calibration in a terminal, at 80 columns or more; plain text in a pipe."""

from __future__ import annotations

from rich.console import Console

from mptctl.evaluation.calibration_report import CalibrationReport
from mptctl.report.tables import make_table, words
from mptctl.report.wording import calibration_lines, calibration_sentences, percent, temperature_title


def print_calibration(report: CalibrationReport, console: Console) -> None:
    """Print what one model is worth by itself, and the bins of its confidence that hold a sample."""
    console.print(words(f"{report.name} ({report.classes} classes)"))
    for sentence in calibration_sentences(report):
        console.print(words(sentence))
    for warning in report.warnings:
        console.print(words(f"Note: {warning}.", "yellow"))
    titles = ["as it is", temperature_title(report)] if report.scaled else ["value"]
    table = make_table(console, "figure", *titles)
    for line in calibration_lines(report):
        table.add_row(line.name, *([line.before, line.after] if report.scaled else [line.before]))
    console.print()
    console.print(table)
    bins = make_table(console, "confidence", "samples", "mean confidence", "right")
    for b in report.reliability:
        if b.n:
            bins.add_row(
                f"{b.low:.3f} to {b.high:.3f}", f"{b.n:,}", percent(b.confidence), percent(b.accuracy)
            )
    console.print()
    console.print(bins)
