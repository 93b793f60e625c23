"""A result as every medium shows it: sentences, tables, figures. Builders write text, media escape it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Medium = Literal["terminal", "markdown", "latex", "page"]
EVERYWHERE: frozenset[Medium] = frozenset(("terminal", "markdown", "latex", "page"))
ON_SCREEN: frozenset[Medium] = frozenset({"terminal"})
ON_PAGE: frozenset[Medium] = frozenset({"page"})
# The look of a cell or a sentence: each medium has its own way.
Tone = Literal["", "good", "bad", "doubt", "strong", "quiet"]
State = Literal["passed", "failed", "undecided", "ungated"]
# Of the states of gates, runs, trials and checks of a machine.
TONES: dict[str, Tone] = {
    "passed": "good", "failed": "bad", "undecided": "doubt", "ungated": "strong",
    "done": "good", "running": "strong", "stopped": "quiet", "waiting": "quiet", "blocked": "bad",
    "ok": "good", "missing": "doubt", "unusable": "doubt",
}  # fmt: skip
# Marks of the best of a column, which Markdown and LaTeX make bold, and of what differs from it by noise.
BEST, NOISE = "*", "~"


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: with its unit, or without where the column names it.
        notes: count, interval, seeds: below the text in a terminal and on a page, in brackets elsewhere.
        mark: BEST, NOISE or nothing.
        tone: of the text.
        sort: number by which a page orders the rows; None: the text.
    """

    text: str
    notes: tuple[str, ...] = ()
    mark: str = ""
    tone: Tone = ""
    sort: float | None = None


# A text stands for a cell of it.
Row = Sequence[Cell | str]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: above it.
        unit: of its numbers; a narrow terminal does without.
        words: holds text, which begins at the left and may be wrapped.
        spare: order in which a narrow terminal does without columns; 0: never.
        marked: its cells may have marks.
        notes_in_latex: notes stand in a paper's table too.
    """

    title: str
    unit: str = ""
    words: bool = False
    spare: int = 0
    marked: bool = False
    notes_in_latex: bool = False

    @property
    def full_title(self) -> str:
        """The title with the unit."""
        return f"{self.title} {self.unit}".rstrip()


@dataclass(frozen=True)
class Table:
    """A table, its first column text.

    Attributes:
        columns, rows: a row has a cell, or its text, for each column.
        title: above it.
        name: what a page calls a table without a title.
        sentence: between title and table.
        legend: below it; it says what marks and columns mean.
        total: number of rows that there are, of which the first ones are given; 0: all are.
        ruled: a terminal draws a line below the titles.
        media: where it stands.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    name: str = ""
    sentence: str = ""
    legend: str = ""
    total: int = 0
    ruled: bool = True
    media: frozenset[Medium] = EVERYWHERE

    @property
    def has_marks(self) -> bool:
        """Whether cells of a column may have marks; the legend then explains those of all tables."""
        return any(column.marked for column in self.columns)

    def cells(self) -> list[list[Cell]]:
        """The rows as cells."""
        return [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Note:
    """A sentence.

    Attributes:
        text: the sentence.
        tone: its look.
        whole: stays one line in a pipe, since programs may look for it.
        media: where it stands.
    """

    text: str
    tone: Tone = ""
    whole: bool = False
    media: frozenset[Medium] = EVERYWHERE


@dataclass(frozen=True)
class Drawing:
    """A figure of a document.

    Attributes:
        name: its id on a page, and the name of its file.
        caption: above it.
        words: text for readers who do not see it.
        draw: makes it; it imports matplotlib.
    """

    name: str
    caption: str
    words: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Document:
    """A result as it is shown.

    Attributes:
        parts: sentences and tables in the order of reading; a page has the sentences first.
        title: the result in a few words; on top of a page.
        subject: above the title.
        state: of a gate; colours the title.
        drawings: made when a page asks for them, so that a terminal imports no matplotlib.
        footer: below a page.
    """

    parts: Sequence[Note | Table]
    title: str = ""
    subject: str = ""
    state: State = "ungated"
    drawings: Callable[[], Sequence[Drawing]] = field(default=tuple)
    footer: str = ""

    def shown_in(self, medium: Medium) -> list[Note | Table]:
        """The parts that stand in a medium."""
        return [part for part in self.parts if medium in part.media]


def notes(texts: Sequence[str], tone: Tone = "") -> list[Note]:
    """A note for each sentence."""
    return [Note(text, tone) for text in texts]


def bold_legend(text: str) -> str:
    """A legend with its "* is" changed to "Bold is", for media that make the best of a column bold."""
    return text.replace(f"{BEST} is", "Bold is", 1)
