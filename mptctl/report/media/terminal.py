"""Print documents in a terminal or a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Document, Note, Table, Tone

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
        console.print(rich_table(table, console))
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


def rich_table(table: Table, console: Console) -> RichTable:
    """The rows of a table for rich, without a frame; notes stand below the text of their cell.

    The first column and those of words stand on the left, numbers on the right. Title, sentence and legend
    are left out.

    Args:
        table: with or without rows.
        console: a terminal has a line below the titles and closer columns, if the table is ruled.
    """
    ruled = table.ruled and console.is_terminal
    shown = RichTable(
        box=box.SIMPLE_HEAD if ruled else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1 if ruled else 2, 0, 0),
        header_style="dim",
    )
    for i, column in enumerate(table.columns):
        is_left = i == 0 or column.words
        shown.add_column(
            printable_text(column.title), justify="left" if is_left else "right", overflow="fold"
        )
    for row in table.cells():
        shown.add_row(*map(_cell_text, row))
    return shown


def _cell_text(cell: Cell) -> Text:
    """The text of a cell with its mark, and each note on a line below."""
    text = printable_text(f"{cell.text}{cell.mark}", STYLES["strong" if cell.mark == BEST else cell.tone])
    for note in cell.notes:
        text.append(f"\n{visible(note)}", style="not bold dim")
    return text
