"""A comparison as Markdown: the numbers, and text that stays text."""

from __future__ import annotations

import re

import pytest

from mptctl.report.flips_markdown import escape, render_markdown
from tests.report.examples import HOSTILE, example


def test_numbers_and_verdict() -> None:
    report = example()
    text = render_markdown(report)
    assert text.startswith("### ❌ Gate failed: max-nfr\n")
    assert f"| old right | {report.counts.both_right} | **{report.counts.negative_flips}** |" in text


def test_every_table_row_has_its_columns() -> None:
    for line in render_markdown(example(HOSTILE)).splitlines():
        if line.startswith("|"):
            columns = len(re.findall(r"(?<!\\)\|", line)) - 1
            assert columns in (3, 4, 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a|b", r"a\|b"),
        ("[x](y)", r"\[x\](y)"),
        ("`x`*_", r"\`x\`\*\_"),
        ("@team", "&#64;team"),
        ("two\nlines", "two lines"),
    ],
)
def test_text_stays_text(text: str, expected: str) -> None:
    assert escape(text) == expected
