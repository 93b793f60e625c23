"""Print releases over time in a terminal: NFR as a line of blocks, and a table."""

from __future__ import annotations

from rich.console import Console

from mptctl.evaluation.gate.history import Release
from mptctl.files.explained import shown
from mptctl.report.media.document import TONES, Cell, Column, Note, Row, Table
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.terminal import print_parts

# Eight heights of a bar, lowest first; the second string is for encodings without blocks.
BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "_.,-=+*#"
COLUMNS = (
    Column("date"),
    Column("new", words=True),
    Column("flips"),
    Column("NFR"),
    Column("95 % interval"),
    Column("lost"),
    Column("error"),
    Column("gate"),
)
TAG = Column("tag", words=True)


def print_history(releases: list[Release], console: Console) -> None:
    """Print the NFR of the last releases as a line of bars, and a table of all.

    Args:
        releases: at least one, oldest first.
        console: decides how many bars fit; at least 10 are printed.
    """
    rates = [release.nfr for release in releases]
    bars = max(10, console.width - 24)  # "NFR", the range and spaces take 24 columns
    line = sparkline(rates[-bars:], console.encoding)
    has_tags = any(release.tag for release in releases)
    columns = (*COLUMNS[:2], *((TAG,) if has_tags else ()), *COLUMNS[2:])
    rows: list[Row] = [
        [
            release.date.isoformat(),
            shown(release.new),
            *([shown(release.tag or "")] if has_tags else []),
            f"{release.counts.negative_flips:,} / {release.n_old:,}",
            percent(release.nfr),
            format_interval(release.nfr_ci95, 1),
            percent(release.lost, 1),
            percent(release.er_new, 1),
            Cell(release.verdict, tone=TONES[release.verdict]),
        ]
        for release in releases
    ]
    spread = f"{percent(min(rates))} to {percent(max(rates))}"
    print_parts([Note(f"NFR {line} {spread}"), Table(columns, rows)], console)


def sparkline(values: list[float], encoding: str) -> str:
    """Values as a line of bars, one character each, from 0 to the largest value.

    Args:
        values: at least 0; may be empty.
        encoding: of the output; without blocks in it, bars are punctuation.
    """
    try:
        BLOCKS.encode(encoding)
        levels = BLOCKS
    except (UnicodeEncodeError, LookupError):
        levels = PLAIN
    largest = max(values, default=0.0) or 1.0
    return "".join(levels[min(len(levels) - 1, int(len(levels) * value / largest))] for value in values)
