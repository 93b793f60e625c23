"""Make the document of a chain of updates: flips of each generation against the one before and the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from mptctl.evaluation.rates import Rate
from mptctl.files import FilesTogether
from mptctl.report.media.document import Cell, Column, Document, Drawing, Table, notes
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.numbers import format_count, format_interval, percent
from mptctl.studies.chain import ChainReport, ChainRow

RateName = Literal["er_all", "flips_before", "flips_first", "new", "lasting", "healed"]
# Titles of the columns in the two tables of a seed, by the field of a row.
FLIPS: dict[RateName, str] = {"er_all": "error", "flips_before": "vs before", "flips_first": "vs first"}
KINDS: dict[RateName, str] = {"new": "new", "lasting": "lasting", "healed": "healed"}
MEANING = (
    "vs before: flips against the generation before, over the classes that it knows. vs first: flips against "
    "generation 0, over its classes. Of these, new ones were right in the generation before and lasting ones "
    "were wrong there too; healed is what generation 0 got right, the one before got wrong and this one gets "
    "right again. Below each rate stand its 95 % interval and its counts; error is that on all classes "
    "that a generation knows."
)
SENTENCE = "Flips against generation 0 by kind, and what was healed:"
CAPTION = (
    "Flips against generation 0, new and lasting, and below zero what was healed; with 95\u00a0% intervals."
)


def write_chain(report: ChainReport, markdown: Path | None = None, figure: Path | None = None) -> list[Path]:
    """Write the Markdown and the figure of a chain, both or neither, and return the paths.

    Args:
        report: of the chain.
        markdown: a file for its tables; None: not written.
        figure: a file that ends in ``.png`` or ``.svg``; None: not written.

    Raises:
        StorageError: a file cannot be written.
    """
    with FilesTogether() as files:
        if markdown is not None:
            with files.open(markdown) as stream:
                stream.write(document_markdown(chain_document(report)).encode())
        if figure is not None:
            from mptctl.report.figures.chain import draw_chain
            from mptctl.report.media.svg import save_figure

            save_figure(draw_chain(report), figure, files.open)
    return [path for path in (markdown, figure) if path is not None]


def chain_document(report: ChainReport) -> Document:
    """The document of a chain: two tables for each seed, sentences on generation 0, and the notes."""
    seeds = list(dict.fromkeys(row.seed for row in report.rows))
    tables = []
    for seed in seeds:
        rows = [row for row in report.rows if row.seed == seed]
        flips, kinds = _table(rows, FLIPS), _table(rows, KINDS)
        title = f"seed {seed}" if len(seeds) > 1 else ""
        legend = MEANING if seed == seeds[-1] else ""
        tables += [
            replace(flips, title=title, name="Updates"),
            replace(kinds, sentence=SENTENCE, name="Kinds of flips", legend=legend),
        ]
    return Document(
        [*tables, *notes(remarks(report))],
        title="A chain of updates",
        drawings=lambda: _drawings(report),
    )


def _table(rows: Sequence[ChainRow], titles: Mapping[RateName, str]) -> Table:
    """A table of one seed with a row for each generation and a column for each rate in `titles`."""
    return Table(
        [Column("method"), *(Column(title) for title in titles.values())],
        [
            [
                Cell(row.name, (f"generation {row.generation}", f"{row.classes:,} classes")),
                *(rate_cell(getattr(row, name)) for name in titles),
            ]
            for row in rows
        ],
    )


def rate_cell(rate: Rate) -> Cell:
    """A rate in percent, with its interval and its count as notes."""
    return Cell(percent(rate.value), (format_interval(rate.ci95), format_count(rate)))


def _drawings(report: ChainReport) -> list[Drawing]:
    """The figure of a chain; none where the chain has no rows."""
    from mptctl.report.figures.chain import draw_chain

    words = "; ".join(
        f"{row.name}, generation {row.generation}: {format_count(row.flips_first)} against the first"
        for row in report.rows
    )
    drawing = Drawing("chain", CAPTION, f"Flips of each generation. {words}.", lambda: draw_chain(report))
    return [drawing] if report.rows else []


def remarks(report: ChainReport) -> list[str]:
    """Sentences on generation 0 of each seed, and the notes."""
    has_seeds = len({model.seed for model in report.first}) > 1
    lines = []
    for model in report.first:
        seed = f" of seed {model.seed}" if has_seeds else ""
        lines.append(
            f"Generation 0{seed} knows {model.classes} classes and errs on {percent(model.er_all.value)} of "
            f"their test samples ({format_interval(model.er_all.ci95)}; {format_count(model.er_all)})."
        )
    return [*lines, *(f"Note: {note}." for note in report.notes)]
