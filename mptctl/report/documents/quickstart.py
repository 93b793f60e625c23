"""The last screen of the quickstart: what each update breaks, in figures, in words and in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.report.media.gallery import PictureReader
from mptctl.report.media.half_blocks import can_draw, draw_half_blocks
from mptctl.report.media.numbers import format_interval, percent
from mptctl.report.media.tables import make_table, say, words

# Pictures beside each other: three of 16 columns with their captions fill 80 columns.
ACROSS = 3


class Row(Protocol):
    """What the table needs of a model."""

    @property
    def model(self) -> str: ...
    @property
    def negative_flips(self) -> int: ...
    @property
    def n_old(self) -> int: ...
    @property
    def nfr(self) -> float: ...
    @property
    def nfr_ci95(self) -> tuple[float, float]: ...
    @property
    def er_old_classes(self) -> float: ...
    @property
    def er_all(self) -> float | None: ...


class Example(Protocol):
    """What a picture's caption needs."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def plain_answer(self) -> str: ...
    @property
    def careful_answer(self) -> str: ...


def print_quickstart(
    rows: Sequence[Row],
    meaning: str,
    examples: Sequence[Example],
    pictures: PictureReader,
    page: str,
    next_command: str,
    console: Console,
) -> None:
    """Print one row for each model, what it means, some of what flipped, and where to look next."""
    table = make_table(console, "model", "flips", "of", "NFR", "95 % interval", "error, old", "error, all",
                       spare=("error, old", "95 % interval", "NFR"))  # fmt: skip
    for row in rows:
        table.add_row(
            row.model,
            f"{row.negative_flips:,}",
            f"{row.n_old:,}",
            percent(row.nfr),
            format_interval(row.nfr_ci95),
            percent(row.er_old_classes),
            percent(row.er_all),
        )
    console.print(table)
    console.print()
    console.print(meaning, highlight=False, markup=False)
    if examples and can_draw(console):
        console.print("\nSome of what the plain update breaks:\n", highlight=False, markup=False)
        console.print(_gallery(examples, pictures))
    console.print()
    say(words(f"All that the MPT update breaks: {page}"), console)
    say(words(f"For your own data: {next_command}"), console)


def _gallery(examples: Sequence[Example], pictures: PictureReader) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    drawn = [cell for example in examples for cell in _cells(example, pictures)]
    for start in range(0, len(drawn), 2 * ACROSS):
        if start:
            grid.add_row()
        grid.add_row(*drawn[start : start + 2 * ACROSS])
    return grid


def _cells(example: Example, pictures: PictureReader) -> list[Text]:
    """The picture, and beside it who says what."""
    picture = pictures(example.id)
    if picture is None:
        return []
    answers = (("old", example.label), ("plain", example.plain_answer), ("mpt-kl", example.careful_answer))
    caption = Text("\n".join(f"{who:<6} {says}" for who, says in answers))
    caption.highlight_words([f"plain  {example.plain_answer}"], "red")
    return [draw_half_blocks(picture[: picture.shape[0] // 2 * 2]), caption]
