"""One document in every medium: the same cells, notes and sentences, escaped by the medium, marks in its own way."""

from __future__ import annotations

import html
import re

import pytest
from pylatexenc.latex2text import LatexNodes2Text

from mptctl.report.media.document import BEST, NOISE, Cell, Column, Document, Note, Table
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.page import render_document
from tests.report.golden import piped

# A name that means something to each of them.
ODD = "a_b 50% & <i>x</i> [red]#1[/red] $k$ {y} |`*"
DOCUMENT = Document(
    [
        Note("a sentence of all"),
        Note("only a screen has this", media=frozenset({"terminal"})),
        Table(
            [(ODD, Cell("1.50", ("6 / 400",), BEST)), ("other", Cell("1.75", ("7 / 400",), NOISE))],
            [
                Column("method", lambda row: row[0]),
                Column("NFR", lambda row: row[1], "%", notes_in_latex=True),
            ],
            title="Updates",
            legend=f"{BEST} is the best of its column.",
        ),
    ],
    title="A document",
)


def plain(medium: str) -> str:
    """The text of a medium as its reader sees it."""
    if medium == "terminal":
        return piped(DOCUMENT)
    if medium == "latex":
        return LatexNodes2Text(keep_comments=True).latex_to_text(document_latex(DOCUMENT))
    if medium == "markdown":
        return html.unescape(re.sub(r"\\(.)", r"\1", document_markdown(DOCUMENT)))
    return html.unescape(
        re.sub(r"<(style|head)>.*?</\1>|</?[a-z][^>]*>", " ", render_document(DOCUMENT), flags=re.S)
    )


@pytest.mark.parametrize("medium", ["terminal", "markdown", "latex", "page"])
def test_every_medium_has_every_cell_and_sentence(medium: str) -> None:
    text = " ".join(plain(medium).split())
    for part in (ODD, "1.50", "6 / 400", "1.75", "7 / 400", "NFR", "Updates", "a sentence of all"):
        assert part in text, part
    assert ("only a screen has this" in text) == (medium == "terminal")


def test_the_best_of_a_column_is_marked_in_each_mediums_way() -> None:
    assert re.search(r"1\.50\*\n.*6 / 400", plain("terminal"))
    assert "**1.50** (6 / 400)" in document_markdown(DOCUMENT)
    assert r"\textbf{1.50} (6 / 400)" in document_latex(DOCUMENT)
    assert '<td class="strong">1.50*<small>6 / 400</small></td>' in render_document(DOCUMENT)
    for text in (document_markdown(DOCUMENT), document_latex(DOCUMENT)):
        assert "Bold is the best of its column." in text
