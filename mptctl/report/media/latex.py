"""A document as LaTeX: its tables for booktabs, its sentences as comments."""

from __future__ import annotations

import re

from mptctl.report.media.document import BEST, Cell, Column, Document, Table, bold_legend

# Characters that mean something to LaTeX, and how they are written so that they stand for themselves.
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "“": "``", "”": "''",
}  # fmt: skip


def latex(text: str) -> str:
    """Text that stays text in LaTeX."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def document_latex(document: Document) -> str:
    """A table environment for each table; its caption says its title, and what rows and marks are."""
    parts = document.shown_in("latex")
    comments = [f"% {' '.join(part.text.split())}" for part in parts if not isinstance(part, Table)]
    tables = [part for part in parts if isinstance(part, Table)]
    # Tables of one document share the meaning of their marks; a paper may show any of them alone.
    marks = next((table.legend for table in tables if table.legend), "")
    lines = [line for table in tables for line in _table(table, marks)]
    return "\n".join([*comments, "% \\usepackage{booktabs}", *lines])


def _table(table: Table, marks: str) -> list[str]:
    legend = bold_legend(marks if table.has_marks else table.legend)
    caption = " ".join(text for text in (table.title and f"{table.title}.", table.sentence, legend) if text)
    rows = [
        [_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)]
        for row in table.cells()
    ]
    return [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(caption)}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        "\\toprule",
        " & ".join(latex(column.full_title) for column in table.columns) + " \\\\",
        "\\midrule",
        *(" & ".join(row) + " \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
        "",
    ]


def _cell(column: Column, cell: Cell) -> str:
    text = _signed(latex(cell.text))
    if cell.mark == BEST:
        text = f"\\textbf{{{text}}}"
    elif cell.mark:
        text += r"$^{\sim}$"
    said = "; ".join(note for note in cell.notes if note)
    return f"{text} ({_signed(latex(said))})" if said and column.notes_in_latex else text


def _signed(text: str) -> str:
    """Numbers with their signs in math mode, where a minus is one."""
    return re.sub(r"(?<![^\s(])[+-]\d+(\.\d+)?", r"$\g<0>$", text)
