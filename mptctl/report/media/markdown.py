"""Write a document as Markdown, and escape text for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Column, Document, Table, bold_legend

# Characters of the longest name that is shown in full.
LONGEST = 200


def escape(text: str, *, shorten: bool = True) -> str:
    """Text in one line that Markdown shows as it is, where a class may be called `<b>`, `a|b` or `@team`.

    Args:
        text: a name, or a sentence.
        shorten: cut what is longer than `LONGEST` characters; it then ends in ``...``.
    """
    flat = visible(" ".join(text.split()))
    if shorten and len(flat) > LONGEST:
        flat = f"{flat[: LONGEST - 3]}..."
    html = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html).replace("@", "&#64;")


def document_markdown(document: Document) -> str:
    """Return a document as Markdown: tables under headings of level 4, sentences as items of lists."""
    lines: list[str] = []
    for part in document.shown_in("markdown"):
        if isinstance(part, Table):
            heading = [f"#### {escape(part.title)}", ""] if part.title else []
            sentence = [escape(part.sentence, shorten=False), ""] if part.sentence else []
            legend = [escape(bold_legend(part.legend), shorten=False), ""] if part.legend else []
            lines += [*heading, *sentence, *table_lines(part), "", *legend]
        else:
            lines.append(f"- {escape(part.text, shorten=False)}")
    return "\n".join([*lines, ""])


def table_lines(table: Table) -> list[str]:
    """The lines of a table: titles, alignment, rows; no heading, sentence or legend."""
    return [
        _line([escape(column.full_title) for column in table.columns]),
        "|" + "".join("---|" if i == 0 or column.words else "--:|" for i, column in enumerate(table.columns)),
        *(
            _line([_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)])
            for row in table.cells()
        ),
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: Column, cell: Cell) -> str:
    """The text of a cell, bold for the best and for strong and bad tones, with its notes in brackets."""
    text = escape(cell.text)
    if (cell.mark == BEST or cell.tone in ("bad", "strong")) and text:
        text = f"**{text}**"
    elif column.marked:
        text += escape(cell.mark)
    notes = "; ".join(note for note in cell.notes if note)
    return f"{text} ({escape(notes)})" if notes else text
