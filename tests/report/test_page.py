"""What all pages share: one head and style, text that stays text, and no part forgotten."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from mptctl.report.media import page
from mptctl.report.media.document import Document
from mptctl.report.media.page import render_document
from tests.report.examples import HOSTILE, example_page

TEMPLATES = Path(page.__file__).parent / "templates"


def test_every_page_takes_head_and_style_from_one_template() -> None:
    parts = ("base.html.j2", "table.html.j2")
    pages = {path.name: path.read_text() for path in TEMPLATES.iterdir() if path.name not in parts}
    assert pages.keys() == {"document.html.j2", "flips.html.j2", "split.html.j2"}
    for name, text in pages.items():
        extended = "base" if name == "document.html.j2" else "document"
        assert text.startswith(f'{{% extends "{extended}.html.j2" %}}'), name
        assert "<head>" not in text
        assert "<style" not in text


def test_a_part_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="report"):
        render_document(Document([]), None, "flips")


def test_only_the_script_of_the_page_itself_may_run() -> None:
    text = example_page(HOSTILE)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy.group(1)
    assert "script-src 'unsafe-inline'" not in policy.group(1)
