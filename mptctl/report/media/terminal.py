"""A document in a terminal or a pipe; on a narrow screen columns go, or rows are stacked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Column, Document, Note, Table, Tone

# Characters before a stacked row's figures, and between their names and values.
INDENT = 2
STYLES: dict[Tone, str] = {
    "": "", "good": "bold green", "bad": "bold red", "doubt": "bold yellow", "strong": "bold", "quiet": "dim",
}  # fmt: skip


def print_document(document: Document, console: Console | None = None) -> None:
    """Print the parts in their order, with a blank line between a table and what stands beside it.

    Args:
        document: of any result.
        console: its width is kept to; standard output where None.
    """
    print_parts(document.shown_in("terminal"), console or Console())


def print_parts(parts: Iterable[Note | Table], console: Console) -> None:
    """Print parts of a document; the meaning of marks stands below all of them.

    Args:
        parts: in their order.
        console: its width is kept to.
    """
    before: Note | Table | None = None
    marks = ""
    for part in parts:
        below_table = isinstance(before, Table) and (before.has_marks or not before.legend)
        if before is not None and (isinstance(part, Table) or below_table):
            console.print()
        if isinstance(part, Note):
            say(words(part.text, STYLES[part.tone]), console, whole=part.whole)
        else:
            print_table(part, console)
            marks = part.legend if part.has_marks else marks
        before = part
    if marks:
        console.print()
        console.print(words(marks, STYLES["quiet"]), highlight=False)


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title, its sentence and a legend that is no meaning of marks."""
    if table.title:
        more = ""
        if len(table.rows) < table.total:
            more = f" ({len(table.rows)} of {table.total:,}; --rows 0 shows all)"
        console.print(words(f"{table.title}{more}", "bold"), highlight=False)
    if table.sentence:
        console.print(words(table.sentence), highlight=False)
    if table.rows:
        console.print(drawn(table, console))
    if table.legend and not table.has_marks:
        console.print()
        console.print(words(table.legend), highlight=False)


def words(text: str, style: str = "") -> Text:
    """A line or a cell that may hold names from outside: none of them moves the cursor or begins a line.

    Args:
        text: with names in it.
        style: of rich.
    """
    return Text(visible(text), style=style, overflow="fold")


def say(line: Text, console: Console, *, whole: bool = True) -> None:
    """Print a sentence, wrapped between words in a terminal; one that is whole is one line in a pipe.

    A pipe has no width but the one that COLUMNS gives it.

    Args:
        line: without a line break.
        console: where.
        whole: a program may look for it.
    """
    in_one = whole and not (console.is_terminal or "COLUMNS" in os.environ)
    console.print(line, soft_wrap=in_one, highlight=False)


def drawn(table: Table, console: Console) -> FittedTable:
    """A table for rich, without a frame: first column on the left, figures on the right, notes below.

    No word of it is ever broken: where it does not fit, spare columns are left out; where that is not enough,
    each row is stacked, one figure a line.
    """
    rows = table.cells()
    gap = 1 if table.ruled and console.is_terminal else 2
    fitted = FittedTable(
        box=box.SIMPLE_HEAD if table.ruled and console.is_terminal else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        header_style="dim",
    )
    spare = sorted((column for column in table.columns if column.spare), key=lambda column: column.spare)
    fitted.spare = [column.title for column in spare]
    # Cells with marks are padded here: a column on the right would drop the space that a missing mark leaves.
    widths = [
        max(
            len(line)
            for line in (column.title, *(line for row in rows for line in (row[i].text, *row[i].notes)))
        )
        if column.marked
        else 0
        for i, column in enumerate(table.columns)
    ]
    for i, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
        fitted.add_column(
            column.title.rjust(width),
            justify="left" if i == 0 or column.words or column.marked else "right",
            overflow="fold",
            no_wrap=column.marked,
        )
    for row in rows:
        fitted.add_row(*map(_text, table.columns, row, widths))
    return fitted


def _text(column: Column, cell: Cell, width: int) -> Text:
    """A cell with its mark, and its notes below it."""
    mark = (cell.mark or " ") if column.marked else ""
    text = words(f"{cell.text.rjust(width)}{mark}", STYLES["strong" if cell.mark == BEST else cell.tone])
    for note in cell.notes:
        text.append(f"\n{visible(note).rjust(width)}", style="not bold dim")
    return text


class FittedTable(RichTable):
    """A table that fits itself to the width that it is printed at."""

    spare: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        columns = list(self.columns)
        for step, title in enumerate((None, None, *self.spare)):
            if step == 1:
                self.padding = (0, 1, 0, 0)
            columns = [column for column in columns if column.header != title]
            ranges = [_widths(column, console, wide) for column in columns]
            room = options.max_width - self._gap(console, wide) * (len(columns) - 1)
            # Two spaces only where names are not wrapped for them.
            extra = ranges[0][1] - ranges[0][0] if step == 0 else 0
            if extra + sum(least for least, _ in ranges) <= room:
                break
        else:
            yield from _stacked(columns, console)
            return
        fitted = RichTable(
            box=self.box,
            show_edge=False,
            pad_edge=False,
            padding=self.padding,
            header_style=self.header_style,
        )
        fitted.columns = [
            replace(column, _index=i, width=width)
            for i, (column, width) in enumerate(zip(columns, _shared(ranges, room), strict=True))
        ]
        fitted.rows = self.rows
        yield from fitted.__rich_console__(console, options)

    def _gap(self, console: Console, wide: ConsoleOptions) -> int:
        """Characters between two columns."""
        columns = sum(_widths(column, console, wide)[1] for column in self.columns)
        gaps = super().__rich_measure__(console, wide).maximum - columns
        return round(gaps / max(1, len(self.columns) - 1))


def _stacked(columns: Sequence[RichColumn], console: Console) -> RenderResult:
    """Each row as its first cell, and below it a line for each of its other cells that says something."""
    titles = [_flat(column.header, console) for column in columns]
    cells = [[_flat(cell, console) for cell in column._cells] for column in columns]
    for row in zip(*cells, strict=True):
        yield row[0]
        figures = RichTable.grid(padding=(0, INDENT, 0, 0))
        figures.add_column()
        figures.add_column(overflow="fold")
        for title, cell in zip(titles[1:], row[1:], strict=True):
            if cell.plain:
                figures.add_row(Text(" " * INDENT).append_text(title), cell)
        yield figures


def _widths(column: RichColumn, console: Console, options: ConsoleOptions) -> tuple[int, int]:
    """The least width that breaks no word, nor a figure of several; and the width without wrapping."""
    cells = [Measurement.get(console, options, cell) for cell in column._cells]
    head = Measurement.get(console, options, column.header)
    most = max((cell.maximum for cell in cells), default=0)
    wraps = column.justify == "left" and not column.no_wrap
    least = max((cell.minimum for cell in cells), default=0) if wraps else most
    return max(head.minimum, least), max(head.maximum, most)


def _shared(ranges: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths of columns: the least of each, and of the rest as much as each can use, the first first."""
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
