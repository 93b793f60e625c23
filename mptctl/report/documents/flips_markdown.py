"""Write a flip report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.flip_tables import (
    classes_table,
    counts_table,
    models_table,
    rates_table,
    slices_table,
)
from mptctl.report.documents.wording import first_or_all, verdict
from mptctl.report.media.document import Table
from mptctl.report.media.markdown import escape, table_lines

# Rows of the tables of classes and of slices.
# In a folded table more rows take no more room.
CLASSES, SLICES = 20, 20
# Bytes of the text at most, some less than the 65,536 characters that GitHub takes for a comment.
MOST_BYTES = 60_000
MARKS = {"passed": "✅", "failed": "❌", "undecided": "⚠️", "ungated": "ℹ️"}


def render_markdown_error(message: str) -> str:
    """The Markdown that says that the models could not be compared, and why."""
    return f"### {MARKS['failed']} Not compared\n\n{escape(message, shorten=False)}\n"


def render_markdown(report: FlipReport) -> str:
    """Return verdict, rates, errors and folded tables of a comparison, in at most `MOST_BYTES` bytes.

    Too long a text loses first its folded tables, the last one first, then repeatedly half of its sentences,
    from the end. A sentence says so. The head and the tables of rates, errors and counts always stay.
    """
    sentences = [*verdict(report).sentences, *(f"Note: {warning}." for warning in report.warnings)]
    worst = [row for row in report.per_class if row.negative_flips]
    tables = (
        slices_table(report, list(first_or_all(report.slices, SLICES)), len(report.slices)),
        classes_table(first_or_all(worst, CLASSES), len(worst)) if worst else None,
    )
    folded = [table for table in tables if table is not None]
    text, kept = _markdown(report, sentences, folded), len(sentences)
    while len(text.encode()) > MOST_BYTES and (folded or kept):
        if folded:
            folded.pop()
        else:
            kept //= 2
        left_out = len(sentences) - kept
        hints = [f"{left_out:,} more sentences are in the JSON."] if left_out else []
        hints.append("Lists that are too long for a comment are in the JSON.")
        text = _markdown(report, [*sentences[:kept], *hints], folded)
    return text


def _markdown(report: FlipReport, sentences: Sequence[str], folded: Sequence[Table]) -> str:
    """The Markdown of a comparison, whatever its length.

    Args:
        report: the comparison.
        sentences: items of the list at the top.
        folded: tables that a reader opens with a click.
    """
    head = verdict(report)
    counts = counts_table(report)
    lines = [
        f"### {MARKS[head.state]} {escape(head.title)}",
        "",
        f"old: {escape(report.old.name)}, new: {escape(report.new.name)}",
        "",
        *(f"- {escape(sentence, shorten=False)}" for sentence in sentences),
        "",
        *table_lines(rates_table(report)),
        "",
        *table_lines(models_table(report)),
        "",
        f"{counts.title}:",
        "",
        *table_lines(counts),
    ]
    for table in folded:
        more = f" ({len(table.rows)} of {table.total:,})" if len(table.rows) < table.total else ""
        lines += ["", f"<details><summary>{escape(table.title + more)}</summary>", ""]
        lines += [escape(table.sentence, shorten=False), ""] if table.sentence else []
        lines += [*(table_lines(table) if table.rows else []), "", "</details>"]
    return "\n".join(lines) + "\n"
