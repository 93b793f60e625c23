"""One model's calibration in a terminal, at 80 columns or more; plain text in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.evaluation.calibration.report import CalibrationReport
from mptctl.evaluation.statistics import exact_interval
from mptctl.report.documents.wording import calibration_lines, calibration_sentences, temperature_title
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.tables import make_table, say, words


def print_calibration(report: CalibrationReport, console: Console, *, full: bool = False) -> None:
    """Print what one model is worth by itself, its accuracy as the last line.

    Args:
        report: what is printed.
        console: where; its width is kept to.
        full: print the bins of its confidence that hold a sample, too.
    """
    console.print(words(f"{report.name} ({report.classes} classes)"))
    right, *sentences = calibration_sentences(report)
    for sentence in sentences:
        console.print(words(sentence))
    for warning in report.warnings:
        console.print(words(f"Note: {warning}.", "yellow"))
    titles = ["as it is", temperature_title(report)] if report.scaled else ["value"]
    table = make_table(console, "figure", *titles)
    for line in calibration_lines(report):
        table.add_row(line.name, *([line.before, line.after] if report.scaled else [line.before]))
    console.print()
    console.print(table)
    if full:
        console.print()
        console.print(_bins(report, console))
    low, high = exact_interval(round(report.accuracy * report.n), report.n)
    figure = f"{percent(report.accuracy)} (95 % interval {100 * low:.2f} to {100 * high:.2f})"
    console.print()
    if not full:
        console.print(Text("--full shows the bins of confidence.", style="dim"))
    say(words(f"{right.removesuffix('.')}: accuracy {figure}", "bold"), console)


def _bins(report: CalibrationReport, console: Console) -> Table:
    bins = make_table(
        console, "confidence", "mean confidence", "right", "95 % interval",
        spare=("mean confidence", "95 % interval"),
    )  # fmt: skip
    for b in report.reliability:
        if b.n and b.accuracy is not None:
            right = round(b.accuracy * b.n)
            interval = format_interval(exact_interval(right, b.n), 1)
            bins.add_row(
                f"{b.low:.3f} to {b.high:.3f}", percent(b.confidence), f"{right:,} / {b.n:,}", interval
            )
    return bins
