"""Print documents in a terminal or a pipe; a narrow one gets fewer columns, or a stack of lines per row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Column, Document, Note, Table, Tone

# Spaces before each line of a stacked row, and between the name and the value in it.
INDENT = 2
# Columns of a screen that any table fits, to measure tables without wrapping them.
UNLIMITED_WIDTH = 10_000
STYLES: dict[Tone, str] = {
    "": "", "good": "bold green", "bad": "bold red", "doubt": "bold yellow", "strong": "bold", "quiet": "dim",
}  # fmt: skip


def print_document(document: Document, console: Console | None = None) -> None:
    """Print the sentences and tables of a document that are meant for a terminal.

    Args:
        document: of any result.
        console: no line is wider than it; None: standard output.
    """
    print_parts(document.shown_in("terminal"), console or Console())


def print_parts(parts: Iterable[Note | Table], console: Console) -> None:
    """Print parts of a document in their order, with blank lines around tables.

    The legend of a table with marks is printed once, below all parts.

    Args:
        parts: sentences and tables.
        console: no line is wider than it.
    """
    before: Note | Table | None = None
    marks_legend = ""
    for part in parts:
        # A sentence follows the legend of a table without a blank line.
        is_below_rows = isinstance(before, Table) and (before.has_marks or not before.legend)
        if before is not None and (isinstance(part, Table) or is_below_rows):
            console.print()
        if isinstance(part, Note):
            print_sentence(printable_text(part.text, STYLES[part.tone]), console, whole=part.whole)
        else:
            print_table(part, console)
            marks_legend = part.legend if part.has_marks else marks_legend
        before = part
    if marks_legend:
        console.print()
        console.print(printable_text(marks_legend, STYLES["quiet"]), highlight=False)


def print_table(table: Table, console: Console) -> None:
    """Print a table: its title, its sentence, its rows and, unless it explains marks, its legend."""
    if table.title:
        shown = ""
        if len(table.rows) < table.total:
            shown = f" ({len(table.rows)} of {table.total:,}; --rows 0 shows all)"
        console.print(printable_text(f"{table.title}{shown}", "bold"), highlight=False)
    if table.sentence:
        console.print(printable_text(table.sentence), highlight=False)
    if table.rows:
        console.print(fitted_table(table, console))
    if table.legend and not table.has_marks:
        console.print()
        console.print(printable_text(table.legend), highlight=False)


def printable_text(text: str, style: str = "") -> Text:
    """Text for rich in which control characters are escaped: a name cannot move the cursor.

    Args:
        text: may contain names of classes, files and samples.
        style: of rich, such as ``bold``.
    """
    return Text(visible(text), style=style, overflow="fold")


def print_sentence(line: Text, console: Console, *, whole: bool = True) -> None:
    """Print a sentence, wrapped between words.

    Args:
        line: without a line break.
        console: where to print.
        whole: keep it on one line in a pipe, where a program may look for it. A pipe has no width of its own;
            where COLUMNS gives it one, the sentence is wrapped all the same.
    """
    in_one_line = whole and not (console.is_terminal or "COLUMNS" in os.environ)
    console.print(line, soft_wrap=in_one_line, highlight=False)


def fitted_table(table: Table, console: Console) -> FittedTable:
    """The rows of a table for rich, without a frame; notes stand below the text of their cell.

    The first column and those of words stand on the left, numbers on the right. Title, sentence and legend
    are left out.

    Args:
        table: with or without rows.
        console: a terminal has a line below the titles and closer columns, if the table is ruled.
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
    fitted.spare_titles = [column.title for column in spare]
    # Cells with marks are padded here: a column on the right would drop the space that a missing mark leaves.
    widths = [
        _longest_line(column.title, [row[i] for row in rows]) if column.marked else 0
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
        fitted.add_row(*map(_cell_text, table.columns, row, widths))
    return fitted


def _longest_line(title: str, cells: Sequence[Cell]) -> int:
    """Characters of the longest line in a column: its title, a text or a note."""
    texts = [cell.text for cell in cells]
    notes = [note for cell in cells for note in cell.notes]
    return max(map(len, (title, *texts, *notes)))


def _cell_text(column: Column, cell: Cell, width: int) -> Text:
    """The text of a cell with its mark, and each note on a line below; all padded on the left to a width."""
    mark = (cell.mark or " ") if column.marked else ""
    style = STYLES["strong" if cell.mark == BEST else cell.tone]
    text = printable_text(f"{cell.text.rjust(width)}{mark}", style)
    for note in cell.notes:
        text.append(f"\n{visible(note).rjust(width)}", style="not bold dim")
    return text


class FittedTable(RichTable):
    """A table that fits itself to the width that it is printed at, without breaking a word.

    Attributes:
        spare_titles: of the columns that may be left out, the first one first.
    """

    spare_titles: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table in the first layout that fits, or else each row as a stack of lines.

        Layouts: the gaps of the table, with names unwrapped; gaps of one space, with names wrapped; the same
        without the first spare column, without the first two, and so on. A narrow screen changes `padding`.
        """
        unlimited = options.update(max_width=UNLIMITED_WIDTH)
        columns = list(self.columns)
        for layout, left_out_title in enumerate((None, None, *self.spare_titles)):
            if layout == 1:
                self.padding = (0, 1, 0, 0)
            columns = [column for column in columns if column.header != left_out_title]
            ranges = [_width_range(column, console, unlimited) for column in columns]
            room = options.max_width - self._gap(console, unlimited) * (len(columns) - 1)
            # The least width of the first column wraps names; the first layout leaves them whole.
            unwrapped_extra = ranges[0].full - ranges[0].least if layout == 0 else 0
            if sum(width.least for width in ranges) + unwrapped_extra <= room:
                break
        else:
            yield from _stacked_rows(columns, console)
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
            for i, (column, width) in enumerate(zip(columns, _share_room(ranges, room), strict=True))
        ]
        fitted.rows = self.rows
        yield from fitted.__rich_console__(console, options)

    def _gap(self, console: Console, unlimited: ConsoleOptions) -> int:
        """Characters between two columns, measured on a screen of unlimited width."""
        columns = sum(_width_range(column, console, unlimited).full for column in self.columns)
        gaps = super().__rich_measure__(console, unlimited).maximum - columns
        return round(gaps / max(1, len(self.columns) - 1))


def _stacked_rows(columns: Sequence[RichColumn], console: Console) -> RenderResult:
    """Yield each row as its first cell, and below it a line "title value" for each other cell with text."""
    titles = [_in_one_line(column.header, console) for column in columns]
    cells = [[_in_one_line(cell, console) for cell in column._cells] for column in columns]
    for row in zip(*cells, strict=True):
        yield row[0]
        figures = RichTable.grid(padding=(0, INDENT, 0, 0))
        figures.add_column()
        figures.add_column(overflow="fold")
        for title, cell in zip(titles[1:], row[1:], strict=True):
            if cell.plain:
                figures.add_row(Text(" " * INDENT).append_text(title), cell)
        yield figures


class _WidthRange(NamedTuple):
    """Characters that a column needs: the least without breaking a word or number, and unwrapped in full."""

    least: int
    full: int


def _width_range(column: RichColumn, console: Console, options: ConsoleOptions) -> _WidthRange:
    """The characters that the title and cells of a column need; only columns on the left may be wrapped."""
    cells = [Measurement.get(console, options, cell) for cell in column._cells]
    title = Measurement.get(console, options, column.header)
    full = max((cell.maximum for cell in cells), default=0)
    may_wrap = column.justify == "left" and not column.no_wrap
    least = max((cell.minimum for cell in cells), default=0) if may_wrap else full
    return _WidthRange(max(title.minimum, least), max(title.maximum, full))


def _share_room(ranges: Sequence[_WidthRange], room: int) -> list[int]:
    """A width for each column: its least, and from left to right what it can use of the remaining room."""
    remaining = room - sum(width.least for width in ranges)
    widths = []
    for least, full in ranges:
        extra = min(remaining, full - least)
        remaining -= extra
        widths.append(least + extra)
    return widths


def _in_one_line(cell: RenderableType, console: Console) -> Text:
    """The text of a cell, its lines joined by spaces."""
    text = cell if isinstance(cell, Text) else console.render_str(str(cell))
    return Text(" ".join(text.plain.split()), style=text.style, overflow="fold")
