"""A chain of updates as Markdown and as a figure, and writing the files that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptctl.files import FilesTogether
from mptctl.files.output_kinds import MARKDOWN_MARK
from mptctl.report.documents.chain_wording import (
    MEANING,
    TITLES,
    Column,
    count_text,
    interval_text,
    remarks,
    seeds_of,
    value_text,
)
from mptctl.report.documents.flips_markdown import escape
from mptctl.report.media.svg import save_figure
from mptctl.studies.chain import ChainReport, ChainRow


@dataclass(frozen=True)
class ChainFiles:
    """Where a chain goes besides standard output; None is a file that nobody asked for.

    Attributes:
        markdown: its table.
        figure: ends in ``.png`` or ``.svg``.
    """

    markdown: Path | None = None
    figure: Path | None = None

    def write(self, report: ChainReport) -> list[Path]:
        """Write what was asked for, all or nothing; the paths written. Raises StorageError where one cannot be."""
        with FilesTogether() as files:
            if self.markdown is not None:
                with files.open(self.markdown) as stream:
                    stream.write(f"{MARKDOWN_MARK}\n{render_markdown(report)}".encode())
            if self.figure is not None:
                from mptctl.report.figures.chain import draw_chain

                save_figure(draw_chain(report), self.figure, files.open)
        return [path for path in (self.markdown, self.figure) if path is not None]


def render_markdown(report: ChainReport) -> str:
    """A table for each seed, what its columns mean, and generation 0."""
    lines = []
    for heading, rows in seeds_of(report):
        lines += [f"#### {heading}", ""] if heading is not None else []
        lines += [
            f"| method | generation | classes | {' | '.join(f'{title} %' for title in TITLES.values())} |",
            f"|---|{'--:|' * (len(TITLES) + 2)}",
            *(_line(row) for row in rows),
            "",
        ]
    lines += [escape(MEANING), "", *(f"- {escape(line)}" for line in remarks(report))]
    return "\n".join([*lines, ""])


def _line(row: ChainRow) -> str:
    cells = [
        escape(row.name),
        str(row.generation),
        str(row.classes),
        *(_cell(row, column) for column in TITLES),
    ]
    return f"| {' | '.join(cells)} |"


def _cell(row: ChainRow, column: Column) -> str:
    rate = getattr(row, column)
    return f"{value_text(rate)} ({interval_text(rate)}; {count_text(row, column)})"
