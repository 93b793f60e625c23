"""The last screen of the quickstart: what each update breaks, in figures, in words and in pictures."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mptctl.report.media.document import Column, Note, Table
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.pictures import PictureReader, can_draw, draw_half_blocks
from mptctl.report.media.terminal import print_parts
from mptctl.studies.quickstart import QuickstartExample, QuickstartResult

# Pictures beside each other: three of 16 columns with their captions fill 80 columns.
ACROSS = 3
COLUMNS = (
    Column("model"),
    Column("flips"),
    Column("of"),
    Column("NFR", spare=3),
    Column("95 % interval", spare=2),
    Column("error, old", spare=1),
    Column("error, all"),
)


def print_quickstart(result: QuickstartResult, pictures: PictureReader, console: Console) -> None:
    """Print one row for each model, what it means, some of what flipped, and where to look next."""
    rows = [
        [
            row.model,
            f"{row.negative_flips:,}",
            f"{row.n_old:,}",
            percent(row.nfr),
            format_interval(row.nfr_ci95),
            percent(row.er_old_classes),
            percent(row.er_all),
        ]
        for row in result.rows
    ]
    print_parts([Table(COLUMNS, rows), Note(result.meaning)], console)
    if result.examples and can_draw(console):
        console.print("\nSome of what the plain update breaks:\n", highlight=False, markup=False)
        console.print(_gallery(result.examples, pictures))
    console.print()
    where = (f"All that the MPT update breaks: {result.report}", f"For your own data: {result.next_command}")
    print_parts([Note(text, whole=True) for text in where], console)


def _gallery(examples: Sequence[QuickstartExample], pictures: PictureReader) -> RichTable:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    drawn = [cell for example in examples for cell in _cells(example, pictures)]
    for start in range(0, len(drawn), 2 * ACROSS):
        if start:
            grid.add_row()
        grid.add_row(*drawn[start : start + 2 * ACROSS])
    return grid


def _cells(example: QuickstartExample, pictures: PictureReader) -> list[Text]:
    """The picture, and beside it who says what."""
    picture = pictures(example.id)
    if picture is None:
        return []
    answers = (("old", example.label), ("plain", example.plain_answer), ("mpt-kl", example.careful_answer))
    caption = Text("\n".join(f"{who:<6} {says}" for who, says in answers))
    caption.highlight_words([f"plain  {example.plain_answer}"], "red")
    return [draw_half_blocks(picture[: picture.shape[0] // 2 * 2]), caption]
