"""How tables look in a terminal, and as plain text in a pipe; on a narrow screen columns go, or rows are stacked."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from mptctl.errors import visible

# Characters before a stacked row's figures, and between their names and values.
INDENT = 2


def words(text: str, style: str = "") -> Text:
    """A line or a cell that may hold names from outside: none of them moves the cursor or begins a line.

    Args:
        text: with names in it.
        style: of rich.
    """
    return Text(visible(text), style=style, overflow="fold")


def say(line: Text, console: Console) -> None:
    """A sentence that a program may look for: wrapped between words in a terminal, one line in a pipe.

    A pipe has no width but the one that COLUMNS gives it.

    Args:
        line: without a line break.
        console: where.
    """
    console.print(line, soft_wrap=not (console.is_terminal or "COLUMNS" in os.environ), highlight=False)


def make_table(
    console: Console,
    *columns: str,
    left: Collection[str] = (),
    spare: Sequence[str] = (),
    ruled: bool = True,
) -> Table:
    """An empty table without a frame: the first column on the left, figures on the right.

    No word of it is ever broken: where it does not fit, spare columns are left out; where that is not enough, each
    row is stacked, one figure a line.

    Args:
        console: where it will be printed.
        columns: their headings.
        left: headings of further columns that hold text.
        spare: headings of columns that a narrow screen does without, the first of them first.
        ruled: draw a line below the headings, in a terminal.
    """
    table = _FittedTable(
        box=box.SIMPLE_HEAD if ruled and console.is_terminal else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1 if ruled and console.is_terminal else 2, 0, 0),
        header_style="dim",
    )
    table.spare = tuple(spare)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column not in left else "left", overflow="fold")
    return table


class _FittedTable(Table):
    """A table that fits itself to the width that it is printed at."""

    spare: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        columns = list(self.columns)
        gaps = super().__rich_measure__(console, wide).maximum - sum(
            _widths(column, console, wide)[1] for column in columns
        )
        gap = gaps / max(1, len(columns) - 1)
        for title in (None, *self.spare):
            columns = [column for column in columns if column.header != title]
            ranges = [_widths(column, console, wide) for column in columns]
            room = options.max_width - round(gap * (len(columns) - 1))
            if sum(least for least, _ in ranges) <= room:
                break
        else:
            yield from _stacked(columns, console)
            return
        fitted = Table(
            box=self.box, show_edge=False, pad_edge=False, padding=self.padding, header_style=self.header_style
        )  # fmt: skip
        fitted.columns = [
            replace(column, _index=i, width=width)
            for i, (column, width) in enumerate(zip(columns, _shared(ranges, room), strict=True))
        ]
        fitted.rows = self.rows
        yield from fitted.__rich_console__(console, options)


def _stacked(columns: Sequence[Column], console: Console) -> RenderResult:
    """Each row as its first cell, and below it a line for each of its other cells that says something."""
    titles = [_flat(column.header, console) for column in columns]
    cells = [[_flat(cell, console) for cell in column._cells] for column in columns]
    for row in zip(*cells, strict=True):
        yield row[0]
        figures = Table.grid(padding=(0, INDENT, 0, 0))
        figures.add_column()
        figures.add_column(overflow="fold")
        for title, cell in zip(titles[1:], row[1:], strict=True):
            if cell.plain:
                figures.add_row(Text(" " * INDENT).append_text(title), cell)
        yield figures


def _widths(column: Column, console: Console, options: ConsoleOptions) -> tuple[int, int]:
    """The least width that breaks no word, nor a figure of several words; and the width without any wrapping."""
    cells = [Measurement.get(console, options, cell) for cell in column._cells]
    head = Measurement.get(console, options, column.header)
    most = max((cell.maximum for cell in cells), default=0)
    wraps = column.justify == "left" and not column.no_wrap
    least = max((cell.minimum for cell in cells), default=0) if wraps else most
    return max(head.minimum, least), max(head.maximum, most)


def _shared(ranges: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths of columns: the least of each, and of what is left as much as each can use, the first one first."""
    left = room - sum(least for least, _ in ranges)
    widths = []
    for least, most in ranges:
        more = min(left, most - least)
        left -= more
        widths.append(least + more)
    return widths


def _flat(cell: RenderableType, console: Console) -> Text:
    """A cell in one line."""
    text = cell if isinstance(cell, Text) else console.render_str(str(cell))
    return Text(" ".join(text.plain.split()), style=text.style, overflow="fold")
