"""Print the last screen of the quickstart: what each update breaks, in numbers, words and pictures."""

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

# Pictures in a row: three, each of 16 characters and a caption, fill 80 columns of a terminal.
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
    """Print the table of models, its meaning, pictures that flipped where possible, and the next commands.

    Args:
        result: of the quickstart.
        pictures: reads the pictures of the examples; one that it cannot read is left out.
        console: where to print; shows pictures if it is a terminal with enough colours.
    """
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
    hints = (f"All that the MPT update breaks: {result.report}", f"For your own data: {result.next_command}")
    print_parts([Note(text, whole=True) for text in hints], console)


def _gallery(examples: Sequence[QuickstartExample], pictures: PictureReader) -> RichTable:
    """A grid of pictures with their captions, `ACROSS` pictures a row."""
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    cells = [cell for example in examples for cell in _picture_and_caption(example, pictures)]
    cells_a_row = 2 * ACROSS
    for start in range(0, len(cells), cells_a_row):
        if start:
            grid.add_row()
        grid.add_row(*cells[start : start + cells_a_row])
    return grid


def _picture_and_caption(example: QuickstartExample, pictures: PictureReader) -> list[Text]:
    """Two cells, the picture and the predictions of each model; none where the picture cannot be read."""
    picture = pictures(example.id)
    if picture is None:
        return []
    answers = (("old", example.label), ("plain", example.plain_answer), ("mpt-kl", example.careful_answer))
    caption = Text("\n".join(f"{model:<6} {prediction}" for model, prediction in answers))
    caption.highlight_words([f"plain  {example.plain_answer}"], "red")
    even_height = picture.shape[0] // 2 * 2
    return [draw_half_blocks(picture[:even_height]), caption]
