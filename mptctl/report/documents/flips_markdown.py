"""Write a flip report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from dataclasses import replace

from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.flips import flips_document
from mptctl.report.media.document import Document, Note, Table
from mptctl.report.media.markdown import document_markdown, escape

# Rows of each table; in a folded table more rows take no more room.
ROWS = 20
# Bytes of the text at most, some less than the 65,536 characters that GitHub takes for a comment.
MOST_BYTES = 60_000
MARKS = {"passed": "✅", "failed": "❌", "undecided": "⚠️", "ungated": "ℹ️"}
LEFT_OUT = Note("Sentences and lists that are too long for a comment are in the JSON.")


def render_markdown_error(message: str) -> str:
    """The Markdown that says that the models could not be compared, and why."""
    return f"### {MARKS['failed']} Not compared\n\n{escape(message, shorten=False)}\n"


def render_markdown(report: FlipReport) -> str:
    """Return verdict, sentences, tables and folded tables of a comparison, in at most `MOST_BYTES` bytes.

    Too long a text loses first its folded tables, the last one first, then repeatedly half of its sentences,
    from the end. A sentence says so. The head and the tables of rates, errors and counts always stay.
    """
    document = flips_document(report, rows=ROWS)
    parts = document.shown_in("markdown")
    sentences = [part for part in parts if isinstance(part, Note)]
    tables = [part for part in parts if isinstance(part, Table)]
    text = comment(document)
    while len(text.encode()) > MOST_BYTES and (sentences or tables[-1].folded):
        if tables[-1].folded:
            tables.pop()
        else:
            sentences = sentences[: len(sentences) // 2]
        text = comment(replace(document, parts=[*sentences, LEFT_OUT, *tables]))
    return text


def comment(document: Document) -> str:
    """A document of a gate as Markdown, below a heading with the verdict."""
    head = f"### {MARKS[document.state]} {escape(document.title)}\n\n{escape(document.subject)}\n\n"
    return head + document_markdown(document)
