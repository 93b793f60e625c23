"""Write a document as LaTeX: its tables for booktabs, its sentences as comments."""

from __future__ import annotations

import re
from typing import Any

from mptctl.report.media.document import BEST, Cell, Column, Document, Table, bold_legend

# Characters with a meaning in LaTeX, each with what prints the character itself.
ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "“": "``", "”": "''",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Text with the characters escaped that have a meaning in LaTeX."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def document_latex(document: Document) -> str:
    """Return a document as LaTeX: sentences as comments on top, then a table environment for each table."""
    parts = document.shown_in("latex")
    comments = [f"% {' '.join(part.text.split())}" for part in parts if not isinstance(part, Table)]
    tables = [part for part in parts if isinstance(part, Table)]
    lines = [line for table in tables for line in _table_lines(table)]
    return "\n".join([*comments, "% \\usepackage{booktabs}", *lines])


def _table_lines(table: Table[Any]) -> list[str]:
    """The lines of a table environment: first column on the left, all others on the right.

    Its caption has the title, the sentence and the legend.
    """
    title = f"{table.title}." if table.title else ""
    caption = " ".join(filter(None, (title, table.sentence, bold_legend(table.legend))))
    return [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape_latex(caption)}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        "\\toprule",
        " & ".join(escape_latex(column.full_title) for column in table.columns) + " \\\\",
        "\\midrule",
        *(" & ".join(map(_cell, table.columns, row)) + " \\\\" for row in table.cells()),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
        "",
    ]


def _cell(column: Column[Any], cell: Cell) -> str:
    """A cell: the best of a column in bold, others within its noise with a tilde, notes in brackets."""
    text = _signs_in_math(escape_latex(cell.text))
    if cell.mark == BEST:
        text = f"\\textbf{{{text}}}"
    elif cell.mark:
        text += r"$^{\sim}$"
    if not cell.notes or not column.notes_in_latex:
        return text
    return f"{text} ({_signs_in_math(escape_latex('; '.join(cell.notes)))})"


def _signs_in_math(text: str) -> str:
    """Text with each signed number in math mode, where a hyphen is set as a minus."""
    return re.sub(r"(?<![^\s(])[+-]\d+(\.\d+)?", r"$\g<0>$", text)
