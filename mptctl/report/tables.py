"""How tables look in a terminal, and as plain text in a pipe."""

from __future__ import annotations

from collections.abc import Collection

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.errors import visible


def words(text: str, style: str = "") -> Text:
    """A line or a cell that may hold names from outside: none of them moves the cursor or begins a line.

    Args:
        text: with names in it.
        style: of rich.
    """
    return Text(visible(text), style=style, overflow="fold")


def make_table(console: Console, *columns: str, left: Collection[str] = ()) -> Table:
    """An empty table without a frame: the first column on the left, figures on the right.

    Args:
        console: where it will be printed.
        columns: their headings.
        left: headings of further columns that hold text.
    """
    table = Table(
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1 if console.is_terminal else 2, 0, 0),
        header_style="dim",
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column not in left else "left", overflow="fold")
    return table
