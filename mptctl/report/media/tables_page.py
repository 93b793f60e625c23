"""Pages of figures and tables in one form: a search, a comparison, a study, a chain, one model by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mptctl.report.media.page import InlineFigure, render_page
from mptctl.report.media.provenance import Provenance


class Cell(NamedTuple):
    """One cell.

    Attributes:
        text: what it says.
        note: below it, in small letters, one line or several.
        strong: whether it stands out.
    """

    text: str
    note: str = ""
    strong: bool = False

    def classes(self, left: bool) -> str:
        """Its classes on the page."""
        return " ".join(["left"] * left + ["strong"] * self.strong)


class PageTable(NamedTuple):
    """A table of a page.

    Attributes:
        title: above it.
        heads: of its columns.
        rows: cells, as many as heads.
        sentence: between title and table.
        left: columns of text beside the first, which begin at the left and may break.
        chosen: the row that stands out; None where none does.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sentence: str = ""
    left: frozenset[int] = frozenset()
    chosen: int | None = None


@dataclass(frozen=True)
class TablesPage:
    """A page.

    Attributes:
        title: what it comes to, in a few words.
        sentences: what that rests on.
        figures, tables: in their order.
        footer: what the words on it mean.
        subject: what it is about; above the title.
        state: the colour of the title.
    """

    title: str
    sentences: Sequence[str]
    figures: Sequence[InlineFigure]
    tables: Sequence[PageTable]
    footer: str
    subject: str = ""
    state: Literal["good", "bad", "neutral"] = "neutral"

    def render(self, provenance: Provenance | None = None) -> str:
        """The page as text.

        Args:
            provenance: what it was made from.
        """
        return render_page("tables", provenance=provenance, **vars(self))
