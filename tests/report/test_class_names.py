"""Names of classes in every form that people read; ids in JSON."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from mptctl.report.documents.class_names import with_class_names
from mptctl.report.documents.flips import flips_document
from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.documents.flips_object import Report
from mptctl.report.documents.flips_page import render_html
from mptctl.report.media.terminal import print_document
from tests.report.examples import example

LABELS = {"ant": "wood ant", "fox": "red fox"}


def test_a_name_stands_beside_its_id_in_terminal_markdown_and_page_and_ids_stay_in_json() -> None:
    report = example().model_copy(update={"class_labels": LABELS})
    console = Console(width=120, file=io.StringIO())
    shown = with_class_names(report)
    print_document(flips_document(shown), console)
    for text in (console.file.getvalue(), render_markdown(shown), render_html(shown)):  # type: ignore[attr-defined]
        assert "wood ant (ant)" in text
        assert "bee" in text  # which has no name
        assert "wood ant (ant) (ant)" not in text
    assert "red fox (fox)" in render_html(shown)
    assert report.per_class == example().per_class
    assert with_class_names(shown) == shown
    assert report.model_dump()["class_labels"] == LABELS


def test_the_python_object_shows_the_names_that_its_files_have(tmp_path: Path) -> None:
    report = Report(example().model_copy(update={"class_labels": LABELS}))
    text = report.to_markdown(tmp_path / "flips.md")
    for shown in (
        text,
        (tmp_path / "flips.md").read_text(encoding="utf-8"),
        str(report),
        report._repr_html_(),
    ):
        assert "wood ant (ant)" in shown
    assert report.model_dump()["per_class"] == example().model_dump(mode="json")["per_class"]
