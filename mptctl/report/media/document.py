"""Records of a result as every medium shows it: sentences, tables, figures; a medium escapes their text."""

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
        sort: number by which a page sorts the rows; None: it sorts by the text.
    """

    text: str
    notes: tuple[str, ...] = ()
    mark: str = ""
    tone: Tone = ""
    sort: float | None = None


# A string is short for a cell with that text.
Row = Sequence[Cell | str]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: above the cells.
        unit: of the numbers; Markdown, LaTeX and pages put it behind the title, a terminal leaves it out.
        words: the cells are text, which stands on the left and may be wrapped.
        marked: cells may have marks.
        notes_in_latex: LaTeX prints the notes of cells too.
    """

    title: str
    unit: str = ""
    words: bool = False
    marked: bool = False
    notes_in_latex: bool = False

    @property
    def full_title(self) -> str:
        """The title and the unit, with a space between them."""
        return f"{self.title} {self.unit}".rstrip()


@dataclass(frozen=True)
class Table:
    """A table; its first column holds text.

    Attributes:
        columns: from left to right.
        rows: each has one cell, or the text of one, for each column.
        title: above the table.
        name: heading of the table on a page, where there is no title.
        sentence: between the title and the rows.
        legend: what marks and columns mean. The legend of a table with marks explains those of all tables of
            the document: a terminal prints it once, below all parts; LaTeX repeats it in the caption of each
            table with marks. Any other legend, and every legend in Markdown and on pages, stands with its own
            table.
        total: number of rows in the result, where `rows` are only the first of them; 0: `rows` are all.
        ruled: a terminal draws a line below the titles of columns.
        media: that show the table.
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
        """Whether cells may have marks."""
        return any(column.marked for column in self.columns)

    def cells(self) -> list[list[Cell]]:
        """The rows, with each string made a cell."""
        return [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows]


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
        draw: returns the figure. Only pages call it, so that a terminal imports no matplotlib.
    """

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Document:
    """A result as it is shown.

    Attributes:
        parts: sentences and tables in the order of reading; a page shows the sentences first.
        title: the result in a few words, the heading of a page.
        subject: what the result is about, above the title of a page.
        state: of a gate; a page colours the title by it.
        drawings: returns the figures. Only pages call it.
        footer: at the end of a page.
    """

    parts: Sequence[Note | Table]
    title: str = ""
    subject: str = ""
    state: State = "ungated"
    drawings: Callable[[], Sequence[Drawing]] = field(default=tuple)
    footer: str = ""

    def shown_in(self, medium: Medium) -> list[Note | Table]:
        """The parts that a medium shows."""
        return [part for part in self.parts if medium in part.media]


def notes(texts: Sequence[str], tone: Tone = "") -> list[Note]:
    """A note for each sentence."""
    return [Note(text, tone) for text in texts]


def bold_legend(text: str) -> str:
    """A legend with its "* is" changed to "Bold is", for media that make the best of a column bold."""
    return text.replace(f"{BEST} is", "Bold is", 1)
