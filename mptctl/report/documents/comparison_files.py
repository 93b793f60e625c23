"""A comparison as CSV, LaTeX and Markdown, and writing the files that were asked for."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import FilesTogether
from mptctl.files.output_kinds import LATEX_MARK, MARKDOWN_MARK
from mptctl.report.documents.comparison_wording import (
    BEST,
    CALIBRATION_SENTENCE,
    CALIBRATION_TITLES,
    DIGITS,
    TITLES,
    calibration_text,
    cost_text,
    counts_text,
    difference_rows,
    difference_text,
    differences_sentence,
    equal_error_sentence,
    interval_text,
    mark,
    marks_sentence,
    parameters_text,
    remarks,
    spread_text,
)
from mptctl.report.documents.flips_markdown import escape
from mptctl.studies.comparison import COLUMNS, CalibrationRow, Column, Comparison, ComparisonRow, Spread

# Rates of the CSV: those of the table, and what else a row has.
RATES = (*COLUMNS, "lost", "pfr", "nfi")
# With these every table begins, also that of an earlier version.
FIRST_COLUMNS = ("name", "method", "split", "old", "part", "equal_error", "seeds")
CSV_COLUMNS = (
    *FIRST_COLUMNS,
    *(f"{rate}_{what}" for rate in RATES for what in ("mean", "std", "values")),
    "flips", "flips_of", "errors", "errors_of", "cost", "parameters", "best", "within_noise_of_best", "bias_values",
    "flips_at_test_error", "errors_at_test_error", "against",
    *(f"{rate}_difference{end}" for rate in COLUMNS for end in ("", "_low", "_high")),
)  # fmt: skip
# What means something to LaTeX, and how it is written so that it stands for itself.
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "“": "``", "”": "''",
}  # fmt: skip


@dataclass(frozen=True)
class ComparisonFiles:
    """Where a comparison goes besides standard output; None is a file that nobody asked for."""

    csv: Path | None = None
    latex: Path | None = None
    markdown: Path | None = None
    page: Path | None = None

    def write(self, comparison: Comparison, argv: Sequence[str] | None = None) -> list[Path]:
        """Write what was asked for, all or nothing; the paths written.

        Args:
            comparison: of updates.
            argv: of the command that asked for it, for the page; None where there is none.

        Raises:
            StorageError: one cannot be written.
        """
        texts = [
            (self.csv, render_csv),
            (self.latex, lambda found: f"{LATEX_MARK}\n{render_latex(found)}"),
            (self.markdown, lambda found: f"{MARKDOWN_MARK}\n{render_markdown(found)}"),
            (self.page, lambda found: _page(found, argv)),
        ]
        asked = [(path, render) for path, render in texts if path is not None]
        with FilesTogether() as files:
            for path, render in asked:
                with files.open(path) as stream:
                    stream.write(render(comparison).encode())
        return [path for path, _ in asked]


def render_csv(comparison: Comparison) -> str:
    """One line a row: rates as fractions in full precision, values over seeds divided by spaces, n/a empty or nan."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in comparison.rows:
        spreads: list[Spread] = [getattr(row, rate) for rate in RATES]
        cells: list[object] = [*map(_text_cell, (row.name, row.method, row.split, row.old))]
        cells += [comparison.part, _text_cell(comparison.equal_error), _joined(row.seeds)]
        for spread in spreads:
            values = ["nan" if value is None else value for value in spread.values]
            cells += [spread.mean, spread.std, _joined(values)]
        for counted in (row.flips, row.errors):
            cells += [_joined([pair[i] for pair in counted.values]) for i in (0, 1)]
        cells += [row.cost, row.parameters, _joined(row.best), _joined(row.within_noise_of_best)]
        cells.append("" if row.bias is None else _joined(row.bias.values))
        for checked in (row.flips_at_test_error, row.errors_at_test_error):
            cells.append("" if checked is None else _joined([count for count, _ in checked.values]))
        cells.append(_text_cell(comparison.against))
        for rate in COLUMNS:
            apart = (row.differences or {}).get(rate)
            cells += [None] * 3 if apart is None else [apart.mean, apart.low, apart.high]
        writer.writerow(cells)
    return out.getvalue()


def render_latex(comparison: Comparison) -> str:
    """A table for booktabs; its caption says what the rows and the marks are, and comments say the notes."""
    lines = [
        *(f"% {' '.join(note.split())}" for note in comparison.notes),
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(_shifted(comparison) + _caption(comparison))}}}",
        "\\begin{tabular}{lrrrrrr}",
        "\\toprule",
        " & ".join(["method", *(latex(f"{title} %") for title in TITLES.values()), "cost", "parameters"])
        + " \\\\",
    ]
    for section in dict.fromkeys(row.section for row in comparison.rows):
        lines.append("\\midrule")
        if section is not None:
            lines += [f"\\multicolumn{{7}}{{l}}{{{latex(section)}}} \\\\", "\\midrule"]
        lines += [_latex_row(row) for row in comparison.rows if row.section == section]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}", ""]
    return "\n".join(
        [*lines, *_latex_differences(comparison), *_latex_calibration(comparison.calibration or [])]
    )


def latex(text: str) -> str:
    """Text that stays text in LaTeX."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def render_markdown(comparison: Comparison) -> str:
    """A table, what its marks mean, and the notes."""
    headings = [
        "method",
        "seeds",
        *(f"{title} %" for title in TITLES.values()),
        "flips",
        "cost",
        "parameters",
    ]
    lines = []
    for section in dict.fromkeys(row.section for row in comparison.rows):
        lines += [f"#### {escape(section)}", ""] if section is not None else []
        lines += [f"| {' | '.join(headings)} |", f"|---|{'--:|' * (len(headings) - 1)}"]
        lines += [
            f"| {' | '.join(_markdown_cells(row))} |" for row in comparison.rows if row.section == section
        ]
        lines.append("")
        lines += _markdown_differences(comparison, section)
    if comparison.calibration:
        lines += [
            f"| old model | {' | '.join(CALIBRATION_TITLES.values())} |",
            f"|---|{'--:|' * len(CALIBRATION_TITLES)}",
        ]
        for row in comparison.calibration:
            cells = [calibration_text(row, column) for column in CALIBRATION_TITLES]
            lines.append(f"| {escape(row.old)} | {' | '.join(cells)} |")
        lines += ["", CALIBRATION_SENTENCE, ""]
    if comparison.rows:
        lines += [escape(_caption(comparison)), ""]
    lines += [f"- {escape(line)}" for line in remarks(comparison)]
    return "\n".join([*lines, ""])


def _markdown_differences(comparison: Comparison, section: str | None) -> list[str]:
    rows = difference_rows(comparison, section)
    if not rows:
        return []
    lines = [
        escape(differences_sentence(comparison)),
        "",
        f"| method | {' | '.join(TITLES.values())} |",
        f"|---|{'--:|' * len(TITLES)}",
    ]
    for row in rows:
        cells = [" ".join(_difference(row, column)) for column in COLUMNS]
        lines.append(f"| {escape(row.name)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _latex_differences(comparison: Comparison) -> list[str]:
    lines = []
    for row in comparison.rows:
        if row.differences:
            cells = [_signed(" ".join(_difference(row, column))) for column in COLUMNS]
            lines.append([row.name if row.section is None else f"{row.name}, {row.section}", *cells])
    return _latex_table(differences_sentence(comparison), ["method", *TITLES.values()], lines)


def _signed(text: str) -> str:
    """Numbers with their signs in math mode, where a minus is one; words outside it."""
    return re.sub(r"[+-]\d+(\.\d+)?", r"$\g<0>$", text)


def _difference(row: ComparisonRow, column: Column) -> list[str]:
    ends = interval_text(row, column)
    return [difference_text(row, column), *([f"({ends})"] if ends else [])]


def _latex_calibration(rows: list[CalibrationRow]) -> list[str]:
    lines = [
        [row.old, *(calibration_text(row, column, r" $\pm$ ") for column in CALIBRATION_TITLES)]
        for row in rows
    ]
    return _latex_table(CALIBRATION_SENTENCE, ["old model", *CALIBRATION_TITLES.values()], lines)


def _latex_table(caption: str, headings: list[str], rows: list[list[str]]) -> list[str]:
    """A table beside that of the updates: of each row the name, and its other cells in LaTeX; nothing of no row."""
    if not rows:
        return []
    return [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(caption)}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        "\\toprule",
        " & ".join(map(latex, headings)) + " \\\\",
        "\\midrule",
        *(" & ".join([latex(name), *cells]) + " \\\\" for name, *cells in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
        "",
    ]


def _latex_row(row: ComparisonRow) -> str:
    def cell(column: Column) -> str:
        text, sign = spread_text(getattr(row, column), DIGITS[column], r" $\pm$ "), mark(row, column)
        return f"\\textbf{{{text}}}" if sign == BEST else text + (r"$^{\sim}$" if sign else "")

    cells = [latex(row.name), *map(cell, COLUMNS), cost_text(row), latex(parameters_text(row))]
    return " & ".join(cells) + " \\\\"


def _markdown_cells(row: ComparisonRow) -> list[str]:
    def cell(column: Column) -> str:
        text, sign = spread_text(getattr(row, column), DIGITS[column]), mark(row, column)
        return f"**{text}**" if sign == BEST else f"{text}{escape(sign)}"

    rates = [cell(column) for column in COLUMNS]
    ends = [counts_text(row, "nfr"), cost_text(row), parameters_text(row)]
    return [escape(row.name), str(len(row.seeds)), *rates, *ends]


def _caption(comparison: Comparison) -> str:
    """The sentence on the marks, of which the best is bold here."""
    return marks_sentence(comparison).replace(f"{BEST} is", "Bold is", 1)


def _shifted(comparison: Comparison) -> str:
    """The sentence on the shifts of all rows, before a caption; empty where they are compared as they are."""
    return "" if comparison.equal_error is None else f"{equal_error_sentence(comparison.equal_error)} "


def _text_cell(text: str | None) -> str | None:
    return None if text is None else as_cell(text)


def _joined(values: Sequence[object]) -> str:
    return " ".join(map(str, values))


def _page(comparison: Comparison, argv: Sequence[str] | None) -> str:
    from mptctl.report.documents.comparison_page import render_comparison
    from mptctl.report.media.provenance import origins_of_runs, provenance

    runs = [run for row in comparison.rows for run in row.runs]
    return render_comparison(comparison, provenance(argv, origins_of_runs(runs)))
