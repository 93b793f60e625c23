"""Write a comparison of updates to files: CSV, LaTeX, Markdown, a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from csv import DictWriter
from pathlib import Path

from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import FilesTogether
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.media.document import Document
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.provenance import digests_of_runs, provenance
from mptctl.studies.comparison import COLUMNS, Comparison, ComparisonRow, Spread

# Rates of the CSV: those of the table, and three more fields of a row.
RATES = (*COLUMNS, "lost", "pfr", "nfi")
# Columns of a CSV without rows, as of old models by themselves.
FIRST_COLUMNS = ("name", "method", "part", "equal_error", "seeds")


def write_comparison(
    comparison: Comparison,
    *,
    csv: Path | None = None,
    latex: Path | None = None,
    markdown: Path | None = None,
    page: Path | None = None,
    argv: Sequence[str] | None = None,
) -> list[Path]:
    """Write the files that have a path, all or none, and return their paths.

    Args:
        comparison: of updates.
        csv: file of all numbers.
        latex: file of the tables.
        markdown: file of the tables and sentences.
        page: HTML file with the figures too.
        argv: of the command, its program first, for the page; None where no command made it.

    Raises:
        StorageError: a file cannot be written.
    """
    document = comparison_document(comparison)
    renderers: list[tuple[Path | None, Callable[[], str]]] = [
        (csv, lambda: render_csv(comparison)),
        (latex, lambda: document_latex(document)),
        (markdown, lambda: document_markdown(document)),
        (page, lambda: _page(comparison, document, argv)),
    ]
    written: list[Path] = []
    with FilesTogether() as files:
        for path, render in renderers:
            if path is not None:
                with files.open(path) as stream:
                    stream.write(render().encode())
                written.append(path)
    return written


def render_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV, a line a row, with rates as fractions of full precision.

    The values of seeds share a cell, divided by spaces. What is not defined is an empty cell, and ``nan``
    among the values of seeds.
    """
    out = io.StringIO()
    records = [_csv_record(comparison, row) for row in comparison.rows]
    writer = DictWriter(out, records[0] if records else FIRST_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _csv_record(comparison: Comparison, row: ComparisonRow) -> dict[str, object]:
    """The cells of a row by the titles of their columns; text is no formula to a spreadsheet."""
    cells: dict[str, object] = {
        "name": as_cell(row.name),
        "method": as_cell(row.method),
        "part": as_cell(comparison.part),
        "equal_error": _text_cell(comparison.equal_error),
        "seeds": _joined(row.seeds),
    }
    for rate in RATES:
        spread: Spread = getattr(row, rate)
        cells[f"{rate}_mean"] = spread.mean
        cells[f"{rate}_std"] = spread.std
        cells[f"{rate}_values"] = _joined(spread.values)
    for name, counted in {"flips": row.flips, "errors": row.errors}.items():
        cells[name] = _joined([count for count, _ in counted.values])
        cells[f"{name}_of"] = _joined([samples for _, samples in counted.values])
    cells["cost"] = row.cost
    cells["parameters"] = row.parameters
    cells["best"] = _joined(row.best)
    cells["within_noise_of_best"] = _joined(row.within_noise_of_best)
    cells["bias_values"] = "" if row.bias is None else _joined(row.bias.values)
    cells["against"] = _text_cell(comparison.against)
    for rate in COLUMNS:
        difference = (row.differences or {}).get(rate)
        cells[f"{rate}_difference"] = difference.mean if difference else None
        cells[f"{rate}_difference_low"] = difference.low if difference else None
        cells[f"{rate}_difference_high"] = difference.high if difference else None
        cells[f"{rate}_difference_values"] = _joined(difference.values) if difference else None
    return cells


def _text_cell(text: str | None) -> str | None:
    return None if text is None else as_cell(text)


def _joined(values: Sequence[object]) -> str:
    return " ".join("nan" if value is None else str(value) for value in values)


def _page(comparison: Comparison, document: Document, argv: Sequence[str] | None) -> str:
    """The HTML page of a comparison, with the provenance of its runs, whose folders are read."""
    from mptctl.report.media.page import render_document

    runs = [run for row in comparison.rows for run in row.runs]
    return render_document(document, provenance(argv, digests_of_runs(runs)))
