"""Releases over time in a terminal: NFR as a line of blocks, and a table."""

from __future__ import annotations

from rich.console import Console

from mptctl.evaluation.gate.history import Release
from mptctl.files.explained import shown
from mptctl.report.media.document import TONES, Cell, Column, Note, Row, Table
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.terminal import print_parts

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "_.,-=+*#"
COLUMNS = (
    Column("date", spare=5),
    Column("new", words=True),
    Column("flips"),
    Column("NFR", spare=3),
    Column("95 % interval", spare=4),
    Column("lost", spare=1),
    Column("error", spare=2),
    Column("gate"),
)
TAG = Column("tag", words=True, spare=6)


def print_history(releases: list[Release], console: Console) -> None:
    """Print what was released, oldest first; its line has as many blocks as fit and can be printed."""
    line = sparkline([release.nfr for release in releases][-max(10, console.width - 24) :], console.encoding)
    low, high = (choose(release.nfr for release in releases) for choose in (min, max))
    tagged = any(release.tag for release in releases)
    columns = (*COLUMNS[:2], *((TAG,) if tagged else ()), *COLUMNS[2:])
    rows: list[Row] = [
        [
            release.date.isoformat(),
            shown(release.new),
            *([shown(release.tag or "")] if tagged else []),
            f"{release.counts.negative_flips:,} / {release.n_old:,}",
            percent(release.nfr),
            format_interval(release.nfr_ci95, 1),
            percent(release.lost, 1),
            percent(release.er_new, 1),
            Cell(release.verdict, tone=TONES[release.verdict]),
        ]
        for release in releases
    ]
    print_parts([Note(f"NFR {line} {percent(low)} to {percent(high)}"), Table(columns, rows)], console)


def sparkline(values: list[float], encoding: str) -> str:
    """Values as a line of bars from zero to the largest; plain characters where no blocks can be printed."""
    try:
        BLOCKS.encode(encoding)
        levels = BLOCKS
    except (UnicodeEncodeError, LookupError):
        levels = PLAIN
    largest = max(values, default=0.0) or 1.0
    return "".join(levels[min(len(levels) - 1, int(len(levels) * value / largest))] for value in values)
