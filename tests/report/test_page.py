"""What all pages share: one head and style, text that stays text, and no part forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from mptctl.report import page
from mptctl.report.page import render_page

TEMPLATES = Path(page.__file__).parent / "templates"


def test_every_page_takes_head_and_style_from_one_template() -> None:
    pages = [path for path in TEMPLATES.iterdir() if path.name not in ("base.html.j2", "figures.html.j2")]
    assert {path.name for path in pages} == {"page.html.j2", "tables.html.j2"}
    for path in pages:
        text = path.read_text()
        assert text.startswith('{% extends "base.html.j2" %}'), path
        assert "<head>" not in text
        assert "<style" not in text


def test_a_part_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="verdict"):
        render_page("page")
