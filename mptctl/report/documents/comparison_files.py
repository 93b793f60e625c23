"""Write a comparison of updates to files: CSV, LaTeX, Markdown, a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from csv import DictWriter
from pathlib import Path

from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import FilesTogether
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.provenance import digests_of_runs, provenance
from mptctl.studies.comparison import COLUMNS, Comparison, ComparisonRow, Spread

# Rates of the CSV: those of the table, and three more fields of a row.
RATES = (*COLUMNS, "lost", "pfr", "nfi")
# Each CSV begins with these columns, by which a later call knows it as its own output.
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
        (page, lambda: _page(comparison, argv)),
    ]
    to_write = [(path, render) for path, render in renderers if path is not None]
    with FilesTogether() as files:
        for path, render in to_write:
            with files.open(path) as stream:
                stream.write(render().encode())
    return [path for path, _ in to_write]


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
    texts = (row.name, row.method, comparison.part, comparison.equal_error)
    first = [None if text is None else as_cell(text) for text in texts]
    cells: dict[str, object] = dict(zip(FIRST_COLUMNS, [*first, _joined(row.seeds)], strict=True))
    for rate in RATES:
        spread: Spread = getattr(row, rate)
        cells |= {f"{rate}_mean": spread.mean, f"{rate}_std": spread.std}
        cells[f"{rate}_values"] = _joined(spread.values)
    for name, counted in (("flips", row.flips), ("errors", row.errors)):
        cells[name] = _joined([count for count, _ in counted.values])
        cells[f"{name}_of"] = _joined([samples for _, samples in counted.values])
    cells |= {"cost": row.cost, "parameters": row.parameters, "best": _joined(row.best)}
    cells["within_noise_of_best"] = _joined(row.within_noise_of_best)
    cells["bias_values"] = "" if row.bias is None else _joined(row.bias.values)
    cells["against"] = None if comparison.against is None else as_cell(comparison.against)
    for rate in COLUMNS:
        found = (row.differences or {}).get(rate)
        for end in ("mean", "low", "high"):
            title = f"{rate}_difference_{end}".removesuffix("_mean")
            cells[title] = None if found is None else getattr(found, end)
        cells[f"{rate}_difference_values"] = None if found is None else _joined(found.values)
    return cells


def _joined(values: Sequence[object]) -> str:
    return " ".join("nan" if value is None else str(value) for value in values)


def _page(comparison: Comparison, argv: Sequence[str] | None) -> str:
    """The HTML page of a comparison, with the provenance of its runs, whose folders are read."""
    from mptctl.report.media.page import render_document

    runs = [run for row in comparison.rows for run in row.runs]
    return render_document(comparison_document(comparison), provenance(argv, digests_of_runs(runs)))
