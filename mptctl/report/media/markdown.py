"""A document as Markdown, and the escaping of text in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Column, Document, Table, bold_legend

# Characters of a name in a cell.
LONGEST = 200


def escape(text: str, *, shorten: bool = True) -> str:
    """Text that stays text: a class may be called `<b>`, `a|b`, `@team` or `[x](y)`.

    Args:
        text: a name, or a sentence.
        shorten: leave out what a name has more than `LONGEST` characters.
    """
    flat = visible(" ".join(text.split()))
    if shorten and len(flat) > LONGEST:
        flat = f"{flat[: LONGEST - 3]}..."
    escaped = re.sub(
        r"([\\`*_\[\]|~#])", r"\\\1", flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return escaped.replace("@", "&#64;")


def document_markdown(document: Document) -> str:
    """Tables with their titles and sentences; sentences between them as a list."""
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
    """The lines of a table."""
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
    text = escape(cell.text)
    if (cell.mark == BEST or cell.tone in ("bad", "strong")) and text:
        text = f"**{text}**"
    elif column.marked:
        text += escape(cell.mark)
    said = "; ".join(note for note in cell.notes if note)
    return f"{text} ({escape(said)})" if said else text
