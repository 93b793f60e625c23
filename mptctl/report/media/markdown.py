"""Write a document as Markdown, and escape text for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mptctl.errors import visible
from mptctl.report.media.document import BEST, Cell, Document, Table, bold_legend

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
    """Return a document as Markdown: sentences as list items, tables under headings of level 4 or folded."""
    lines: list[str] = []
    for part in document.shown_in("markdown"):
        if isinstance(part, Table):
            lines += ["", *table_lines(part), ""]
        else:
            lines.append(f"- {escape(part.text, shorten=False)}")
    text = "\n".join([*lines, ""]).removeprefix("\n")
    return re.sub("\n{3,}", "\n\n", text)  # one blank line between two tables


def table_lines(table: Table[Any]) -> list[str]:
    """The lines of a table: title, sentence, rows and legend, each where there is one."""
    title = escape(table.title_and_size)
    lines: list[str] = []
    if table.title:
        lines += [f"<details><summary>{title}</summary>" if table.folded else f"#### {title}", ""]
    if table.sentence:
        lines += [escape(table.sentence, shorten=False), ""]
    if table.rows:
        lines += _row_lines(table)
    if table.legend:
        lines += ["", escape(bold_legend(table.legend), shorten=False)]
    if table.folded:
        lines += ["", "</details>"]
    return lines


def _row_lines(table: Table[Any]) -> list[str]:
    """The line of titles, that of alignments, and a line for each row."""
    aligned = ["---" if i == 0 or column.words else "--:" for i, column in enumerate(table.columns)]
    return [
        _line(escape(column.full_title) for column in table.columns),
        f"|{'|'.join(aligned)}|",
        *(_line(map(_cell, row)) for row in table.cells()),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    """The text of a cell, bold for the best and for strong and bad tones, with its notes in brackets."""
    text = escape(cell.text)
    is_bold = cell.mark == BEST or cell.tone in ("bad", "strong")
    if is_bold and text:
        text = f"**{text}**"
    else:
        text += escape(cell.mark)
    return f"{text} ({escape('; '.join(cell.notes))})" if cell.notes else text
