"""A chain of updates in a terminal, at 80 columns or more; plain text in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.report.documents.chain_wording import (
    MEANING,
    TITLES,
    Column,
    count_text,
    interval_text,
    remarks,
    seeds_of,
    value_text,
)
from mptctl.report.media.tables import make_table, words
from mptctl.studies.chain import ChainReport, ChainRow


def print_chain(report: ChainReport, console: Console) -> None:
    """Print a row for each update: rates, below them intervals and counts; and what the columns mean.

    Args:
        report: what is printed.
        console: where; its width is kept to.
    """
    for heading, rows in seeds_of(report):
        if heading is not None:
            console.print(Text("\n"), words(heading, "bold"), sep="")
        console.print(_table(rows, console))
    console.print()
    for line in (MEANING, *remarks(report)):
        console.print(words(line), highlight=False)


def _table(rows: list[ChainRow], console: Console) -> Table:
    table = make_table(console, "method", *TITLES.values())
    # Seven columns in 80, of which one holds names.
    table.padding = (0, 1, 0, 0)
    for place, row in enumerate(rows):
        if place and row.generation == 1:
            table.add_row()
        name = words(row.name)
        name.append(f"\ngeneration {row.generation}\n{row.classes} classes", style="dim")
        table.add_row(name, *(_cell(row, column) for column in TITLES))
    return table


def _cell(row: ChainRow, column: Column) -> Text:
    rate = getattr(row, column)
    cell = Text(value_text(rate))
    cell.append(f"\n{interval_text(rate)}\n{count_text(row, column)}", style="dim")
    return cell
