"""Records of a result as every medium shows it: sentences, tables, figures; a medium escapes their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

R = TypeVar("R")
Medium = Literal["terminal", "markdown", "latex", "page"]
EVERYWHERE: frozenset[Medium] = frozenset(("terminal", "markdown", "latex", "page"))
ON_SCREEN: frozenset[Medium] = frozenset({"terminal"})
ON_PAGE: frozenset[Medium] = frozenset({"page"})
# The look of a cell or a sentence; each medium has its own colours for it.
Tone = Literal["", "good", "bad", "doubt", "strong", "quiet"]
State = Literal["passed", "failed", "undecided", "ungated"]
# Tones of the states of gates (first line), runs and trials (second), and checks of a machine (third).
TONES: dict[str, Tone] = {
    "passed": "good", "failed": "bad", "undecided": "doubt", "ungated": "strong",
    "done": "good", "running": "strong", "stopped": "quiet", "waiting": "quiet", "blocked": "bad",
    "ok": "good", "missing": "doubt", "unusable": "doubt",
}  # fmt: skip
# Marks of cells: the best of its column (Markdown and LaTeX print it bold), and one within noise of the best.
BEST, NOISE = "*", "~"


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: with its unit, unless the column's title has it.
        notes: count, interval, seeds; below the text in a terminal and on a page, in brackets elsewhere.
        mark: BEST, NOISE or empty.
        tone: of the text.
    """

    text: str
    notes: tuple[str, ...] = ()
    mark: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column of a table whose rows are records.

    Attributes:
        title: above the cells.
        cell: makes the cell of a row; a string is short for a cell with that text.
        unit: of the numbers; Markdown, LaTeX and pages put it behind the title, a terminal leaves it out.
        words: the cells are text, which stands on the left and may be wrapped.
        notes_in_latex: LaTeX prints the notes of cells too.
    """

    title: str
    cell: Callable[[R], Cell | str]
    unit: str = ""
    words: bool = False
    notes_in_latex: bool = False

    @property
    def full_title(self) -> str:
        """The title and the unit, with a space between them."""
        return f"{self.title} {self.unit}".rstrip()


@dataclass(frozen=True)
class Table(Generic[R]):
    """A table; its first column holds text.

    Attributes:
        rows: records.
        columns: from left to right.
        title: above the table.
        name: heading of the table on a page, where there is no title.
        sentence: between the title and the rows.
        legend: what columns and marks mean, below the rows.
        total: number of rows in the result, where `rows` are only the first of them; 0: `rows` are all.
        folded: a comment in Markdown shows the table when its title is clicked.
        whole: a pipe gets each row on one line, since programs may look for it.
        media: that show the table.
    """

    rows: Sequence[R]
    columns: Sequence[Column[R]]
    title: str = ""
    name: str = ""
    sentence: str = ""
    legend: str = ""
    total: int = 0
    folded: bool = False
    whole: bool = False
    media: frozenset[Medium] = EVERYWHERE

    def cells(self) -> list[list[Cell]]:
        """The cells of each row."""
        return [[_as_cell(column.cell(row)) for column in self.columns] for row in self.rows]

    @property
    def title_and_size(self) -> str:
        """The title, and how many rows of how many are shown if not all are."""
        if len(self.rows) >= self.total:
            return self.title
        return f"{self.title} ({len(self.rows)} of {self.total:,})"


@dataclass(frozen=True)
class Note:
    """A sentence.

    Attributes:
        text: the sentence.
        tone: its look.
        whole: a pipe gets it on one line, since programs may look for it.
        media: that show the sentence.
    """

    text: str
    tone: Tone = ""
    whole: bool = False
    media: frozenset[Medium] = EVERYWHERE


@dataclass(frozen=True)
class Drawing:
    """A figure of a document.

    Attributes:
        name: id of the element on a page, and name of the figure's file.
        caption: above the figure, and its alternative text.
        figure: the figure.
    """

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Document:
    """A result as it is shown.

    Attributes:
        parts: sentences and tables in the order of reading; a page shows the sentences first.
        title: the result in a few words, the heading of a page.
        subject: what the result is about, above the title of a page.
        state: of a gate; a page colours the title by it.
        drawings: draws the figures. Only pages call it, so that a terminal imports no matplotlib.
        footer: at the end of a page.
    """

    parts: Sequence[Note | Table[Any]]
    title: str = ""
    subject: str = ""
    state: State = "ungated"
    drawings: Callable[[], Sequence[Drawing]] = field(default=tuple)
    footer: str = ""

    def shown_in(self, medium: Medium) -> list[Note | Table[Any]]:
        """The parts that a medium shows."""
        return [part for part in self.parts if medium in part.media]


def _as_cell(cell: Cell | str) -> Cell:
    return Cell(cell) if isinstance(cell, str) else cell


def mark_of(*, is_best: bool, is_near: bool) -> str:
    """The mark of a cell: the best of its column, within noise of the best, or neither."""
    if is_best:
        return BEST
    return NOISE if is_near else ""


def notes(texts: Sequence[str], tone: Tone = "", media: frozenset[Medium] = EVERYWHERE) -> list[Note]:
    """A note for each sentence."""
    return [Note(text, tone, media=media) for text in texts]


def bold_legend(text: str) -> str:
    """A legend with its "* is" changed to "Bold is", for media that make the best of a column bold."""
    return text.replace(f"{BEST} is", "Bold is", 1)
