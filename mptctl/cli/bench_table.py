"""The table that `mptctl bench` prints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str]) -> None:
    """Columns of ``words`` begin at the left, the others are numbers and end at the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
