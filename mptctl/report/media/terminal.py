"""Print documents in a terminal or a pipe."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Document, Note, Table, Tone

STYLES: dict[Tone, str] = {
    "": "", "good": "bold green", "bad": "bold red", "doubt": "bold yellow", "strong": "bold", "quiet": "dim",
}  # fmt: skip

# Characters of a line in a pipe, above all that a row of a list can have.
ONE_LINE = 100_000


def print_document(document: Document, console: Console | None = None) -> None:
    """Print the parts of a document that are meant for a terminal, with blank lines around tables.

    Args:
        document: of any result.
        console: no line is wider than it; None: standard output.
    """
    console = console or Console()
    before: Note | Table[Any] | None = None
    for part in document.shown_in("terminal"):
        if isinstance(part, Table):
            if before is not None:
                console.print()
            _print_table(part, console)
        else:
            # No blank line comes between a legend and a sentence; an empty sentence is a blank line itself.
            if isinstance(before, Table) and not before.legend and part.text:
                console.print()
            _print_note(part, console)
        before = part


def _print_table(table: Table[Any], console: Console) -> None:
    """Print the title, the sentence, the rows and the legend of a table, each where there is one."""
    if table.title:
        console.print(printable_text(table.title_and_size, "bold"), highlight=False)
    if table.sentence:
        console.print(printable_text(table.sentence), highlight=False)
    if table.rows:
        if table.whole and not console.is_terminal:
            console = Console(file=console.file, width=ONE_LINE)
        console.print(rich_table(table))
    if table.legend:
        console.print()
        console.print(printable_text(table.legend), highlight=False)


def _print_note(note: Note, console: Console) -> None:
    """Print a sentence, wrapped between words; a whole one stays on one line in a pipe.

    Where COLUMNS gives a pipe a width, the sentence is wrapped all the same.
    """
    in_one_line = note.whole and not (console.is_terminal or "COLUMNS" in os.environ)
    console.print(printable_text(note.text, STYLES[note.tone]), soft_wrap=in_one_line, highlight=False)


def printable_text(text: str, style: str = "") -> Text:
    """Text for rich in which control characters are escaped: a name cannot move the cursor.

    Args:
        text: may contain names of classes, files and samples.
        style: of rich, such as ``bold``.
    """
    return Text(visible(text), style=style, overflow="fold")


def rich_table(table: Table[Any]) -> RichTable:
    """The rows of a table for rich, without a frame; notes stand below the text of their cell.

    The first column and those of words stand on the left, numbers on the right. Title, sentence and legend
    are left out.
    """
    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, column in enumerate(table.columns):
        justify: JustifyMethod = "left" if i == 0 or column.words else "right"
        shown.add_column(printable_text(column.title), justify=justify, overflow="fold")
    for row in table.cells():
        shown.add_row(*map(_cell_text, row))
    return shown


def _cell_text(cell: Cell) -> Text:
    """The text of a cell with its mark, and each note on a line below."""
    text = printable_text(f"{cell.text}{cell.mark}", STYLES["strong" if cell.mark == BEST else cell.tone])
    for note in cell.notes:
        text.append(f"\n{visible(note)}", style="not bold dim")
    return text
