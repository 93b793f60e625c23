"""A chain of updates as a document: in each generation the flips against the one before and the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mptctl.evaluation.rates import Rate
from mptctl.files import FilesTogether
from mptctl.files.output_kinds import MARKDOWN_MARK
from mptctl.report.media.document import Cell, Column, Document, Drawing, Table, notes
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.numbers import NOT_DEFINED, format_count, format_interval, percent
from mptctl.studies.chain import ChainReport, ChainRow

RateName = Literal["er_all", "flips_before", "flips_first", "new", "lasting", "healed"]
# How the columns are called, in percent.
TITLES: dict[RateName, str] = {
    "er_all": "error",
    "flips_before": "vs before",
    "flips_first": "vs first",
    "new": "new",
    "lasting": "lasting",
    "healed": "healed",
}
# Columns whose denominator stands beside them, in the column of flips against the first.
SHARED: tuple[RateName, ...] = ("new", "lasting", "healed")
MEANING = (
    "vs before: flips against the generation before, over the classes that it knows. vs first: flips against "
    "generation 0, over its classes. Of these, new ones were right in the generation before and lasting ones "
    "were wrong there too; healed is what generation 0 got right, the one before got wrong and this one gets "
    "right again. new, lasting and healed are parts of the same test samples as vs first. Rates are in "
    "percent, with their 95 % intervals and counts; error is that on all classes that a generation knows."
)
CAPTION = (
    "Flips against generation 0, new and lasting, and below zero what was healed; with 95\u00a0% intervals."
)


def write_chain(report: ChainReport, markdown: Path | None = None, figure: Path | None = None) -> list[Path]:
    """Write what was asked for, all or nothing; the paths written.

    Args:
        report: of the chain.
        markdown: a file for its table; None: nobody asked for it.
        figure: one that ends in ``.png`` or ``.svg``.

    Raises:
        StorageError: one cannot be written.
    """
    with FilesTogether() as files:
        if markdown is not None:
            with files.open(markdown) as stream:
                stream.write(f"{MARKDOWN_MARK}\n{document_markdown(chain_document(report))}".encode())
        if figure is not None:
            from mptctl.report.figures.chain import draw_chain
            from mptctl.report.media.svg import save_figure

            save_figure(draw_chain(report), figure, files.open)
    return [path for path in (markdown, figure) if path is not None]


def chain_document(report: ChainReport) -> Document:
    """A table for each seed, and sentences on generation 0."""
    seeds = list(dict.fromkeys(row.seed for row in report.rows))
    tables = [
        Table(
            [Column("method"), *(Column(title, "%") for title in TITLES.values())],
            [_generation(row) for row in report.rows if row.seed == seed],
            title=f"seed {seed}" if len(seeds) > 1 else "",
            name="Updates",
            legend=MEANING if seed == seeds[-1] else "",
        )
        for seed in seeds
    ]
    return Document(
        [*tables, *notes(remarks(report))],
        title="A chain of updates",
        drawings=lambda: _drawings(report),
    )


def _generation(row: ChainRow) -> Sequence[Cell]:
    rates: list[tuple[RateName, Rate]] = [(name, getattr(row, name)) for name in TITLES]
    return [
        Cell(row.name, (f"generation {row.generation}", f"{row.classes:,} classes")),
        *(Cell(value_text(rate), (interval_text(rate), count_text(row, name))) for name, rate in rates),
    ]


def _drawings(report: ChainReport) -> list[Drawing]:
    from mptctl.report.figures.chain import draw_chain

    words = "; ".join(
        f"{row.name}, generation {row.generation}: {format_count(row.flips_first)} against the first"
        for row in report.rows
    )
    drawing = Drawing("chain", CAPTION, f"Flips of each generation. {words}.", lambda: draw_chain(report))
    return [drawing] if report.rows else []


def value_text(rate: Rate) -> str:
    """A rate in percent, without the sign."""
    return percent(rate.value).removesuffix(" %")


def interval_text(rate: Rate) -> str:
    """The interval of a rate in percent; narrow, because six stand beside each other in 80 columns."""
    if rate.ci95 is None:
        return NOT_DEFINED
    return f"{100 * rate.ci95[0]:.1f}–{100 * rate.ci95[1]:.1f}"


def count_text(row: ChainRow, column: RateName) -> str:
    """A count, and its denominator where it is not that of the column of flips against the first."""
    rate: Rate = getattr(row, column)
    return f"{rate.count:,}" if column in SHARED else f"{rate.count:,}/{rate.of:,}"


def remarks(report: ChainReport) -> list[str]:
    """Sentences on generation 0, and the notes."""
    several = len({model.seed for model in report.first}) > 1
    lines = []
    for model in report.first:
        of = f" of seed {model.seed}" if several else ""
        lines.append(
            f"Generation 0{of} knows {model.classes} classes and errs on {percent(model.er_all.value)} of "
            f"their test samples ({format_interval(model.er_all.ci95)}; {format_count(model.er_all)})."
        )
    return [*lines, *(f"Note: {note}." for note in report.notes)]
