"""Releases over time in a terminal: NFR as a line of blocks, and a table."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mptctl.evaluation.gate.history import Release
from mptctl.files.explained import shown
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.tables import make_table

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "_.,-=+*#"
STYLES = {"passed": "green", "failed": "bold red", "undecided": "yellow", "ungated": ""}


def print_history(releases: list[Release], console: Console) -> None:
    """Print what was released, oldest first."""
    line = sparkline([release.nfr for release in releases][-max(10, console.width - 24) :], console.encoding)
    low, high = (choose(release.nfr for release in releases) for choose in (min, max))
    console.print(Text(f"NFR {line} {percent(low)} to {percent(high)}"))
    console.print()
    table = make_table(
        console,
        "date",
        "new",
        "flips",
        "NFR",
        "95 % interval",
        "lost",
        "error",
        "gate",
        left=("new",),
        spare=("lost", "error", "NFR", "95 % interval", "date"),
    )
    for release in releases:
        flips = f"{release.counts.negative_flips:,} / {release.n_old:,}"
        table.add_row(
            release.date.isoformat(),
            Text(shown(release.new)),
            flips,
            percent(release.nfr),
            format_interval(release.nfr_ci95, 1),
            percent(release.lost, 1),
            percent(release.er_new, 1),
            Text(release.verdict, style=STYLES[release.verdict]),
        )
    console.print(table)


def sparkline(values: list[float], encoding: str) -> str:
    """Values as a line of bars from zero to the largest; plain characters where no blocks can be printed."""
    try:
        BLOCKS.encode(encoding)
        levels = BLOCKS
    except (UnicodeEncodeError, LookupError):
        levels = PLAIN
    largest = max(values, default=0.0) or 1.0
    return "".join(levels[min(len(levels) - 1, int(len(levels) * value / largest))] for value in values)
