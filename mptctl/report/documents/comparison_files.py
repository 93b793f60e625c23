"""Writing a comparison to files: CSV, LaTeX, Markdown, a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from csv import writer as csv_writer
from pathlib import Path

from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import FilesTogether
from mptctl.files.output_kinds import LATEX_MARK, MARKDOWN_MARK
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.provenance import origins_of_runs, provenance
from mptctl.studies.comparison import COLUMNS, Comparison, Spread

# Rates of the CSV: those of the table, and what else a row has.
RATES = (*COLUMNS, "lost", "pfr", "nfi")
# With these every table begins, also that of an earlier version.
FIRST_COLUMNS = ("name", "method", "split", "old", "part", "equal_error", "seeds")
CSV_COLUMNS = (
    *FIRST_COLUMNS,
    *(f"{rate}_{what}" for rate in RATES for what in ("mean", "std", "values")),
    "flips", "flips_of", "errors", "errors_of", "cost", "parameters", "best", "within_noise_of_best",
    "bias_values",
    "flips_at_test_error", "errors_at_test_error", "against",
    *(f"{rate}_difference{end}" for rate in COLUMNS for end in ("", "_low", "_high")),
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
    """Write the files that were asked for, all or nothing; the paths written.

    Args:
        comparison: of updates.
        csv, latex, markdown, page: None is a file that nobody asked for.
        argv: of the command that asked for it, for the page; None where there is none.

    Raises:
        StorageError: one cannot be written.
    """
    document = comparison_document(comparison)
    texts: list[tuple[Path | None, Callable[[], str]]] = [
        (csv, lambda: render_csv(comparison)),
        (latex, lambda: f"{LATEX_MARK}\n{document_latex(document)}"),
        (markdown, lambda: f"{MARKDOWN_MARK}\n{document_markdown(document)}"),
        (page, lambda: _page(comparison, argv)),
    ]
    asked = [(path, render) for path, render in texts if path is not None]
    with FilesTogether() as files:
        for path, render in asked:
            with files.open(path) as stream:
                stream.write(render().encode())
    return [path for path, _ in asked]


def render_csv(comparison: Comparison) -> str:
    """One line a row: rates as full fractions, values over seeds divided by spaces, n/a empty or nan."""
    out = io.StringIO()
    writer = csv_writer(out, lineterminator="\n")
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


def _text_cell(text: str | None) -> str | None:
    return None if text is None else as_cell(text)


def _joined(values: Sequence[object]) -> str:
    return " ".join(map(str, values))


def _page(comparison: Comparison, argv: Sequence[str] | None) -> str:
    from mptctl.report.media.page import render_document

    runs = [run for row in comparison.rows for run in row.runs]
    return render_document(comparison_document(comparison), provenance(argv, origins_of_runs(runs)))
