"""Write a comparison of updates to files: CSV, LaTeX, Markdown, a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from csv import writer as csv_writer
from pathlib import Path

from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import FilesTogether
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.provenance import digests_of_runs, provenance
from mptctl.studies.comparison import COLUMNS, Comparison, Difference, Spread

# Rates of the CSV: those of the table, and three more fields of a row.
RATES = (*COLUMNS, "lost", "pfr", "nfi")
# Each CSV begins with these columns, by which a later call knows it as its own output.
FIRST_COLUMNS = ("name", "method", "part", "equal_error", "seeds")
CSV_COLUMNS = (
    *FIRST_COLUMNS,
    *(f"{rate}_{what}" for rate in RATES for what in ("mean", "std", "values")),
    "flips", "flips_of", "errors", "errors_of", "cost", "parameters", "best", "within_noise_of_best",
    "bias_values",
    "flips_at_test_error", "errors_at_test_error", "against",
    *(f"{rate}_difference{end}" for rate in COLUMNS for end in ("", "_low", "_high", "_values")),
)  # fmt: skip


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
    writer = csv_writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in comparison.rows:
        spreads: list[Spread] = [getattr(row, rate) for rate in RATES]
        cells: list[object] = [*map(_text_cell, (row.name, row.method))]
        cells += [comparison.part, _text_cell(comparison.equal_error), _joined(row.seeds)]
        for spread in spreads:
            values = ["nan" if value is None else value for value in spread.values]
            cells += [spread.mean, spread.std, _joined(values)]
        for counted in (row.flips, row.errors):
            cells.append(_joined([count for count, _ in counted.values]))
            cells.append(_joined([samples for _, samples in counted.values]))
        cells += [row.cost, row.parameters, _joined(row.best), _joined(row.within_noise_of_best)]
        cells.append("" if row.bias is None else _joined(row.bias.values))
        for counted_at_error in (row.flips_at_test_error, row.errors_at_test_error):
            counts = [] if counted_at_error is None else counted_at_error.values
            cells.append(_joined([count for count, _ in counts]))
        cells.append(_text_cell(comparison.against))
        for rate in COLUMNS:
            difference = (row.differences or {}).get(rate)
            cells += [None] * 4 if difference is None else _difference_cells(difference)
        writer.writerow(cells)
    return out.getvalue()


def _difference_cells(difference: Difference) -> list[object]:
    """A difference, the ends of its interval, and the difference of each seed."""
    of_seeds = ["nan" if value is None else value for value in difference.values]
    return [difference.mean, difference.low, difference.high, _joined(of_seeds)]


def _text_cell(text: str | None) -> str | None:
    """A text that a spreadsheet does not take for a formula; None, an empty cell, stays None."""
    return None if text is None else as_cell(text)


def _joined(values: Sequence[object]) -> str:
    return " ".join(map(str, values))


def _page(comparison: Comparison, argv: Sequence[str] | None) -> str:
    """The HTML page of a comparison, with the provenance of its runs, whose folders are read."""
    from mptctl.report.media.page import render_document

    runs = [run for row in comparison.rows for run in row.runs]
    return render_document(comparison_document(comparison), provenance(argv, digests_of_runs(runs)))
