"""A comparison as Markdown: the numbers, and text that stays text."""

from __future__ import annotations

import pytest

from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.media.markdown import escape
from tests.report.examples import example


@pytest.mark.parametrize("length", [10, 10_000])
def test_it_is_short_enough_for_a_comment_whatever_the_names(length: int) -> None:
    """Lists go first, then sentences; what is left out is said, and the verdict and the rates stay."""
    report = example("|" * length)
    many = [f"note {i} {'<' * length}" for i in range(40)]
    text = render_markdown(report.model_copy(update={"warnings": many}))
    assert len(text.encode()) <= 60_000
    assert text.startswith("### ❌ Failed: NFR ")
    assert f"| old right | {report.counts.both_right} |" in text
    assert ("are in the JSON" in text) == (length > 10)
    assert ("<details>" in text) == (length == 10)
    assert text.count("<details>") == text.count("</details>")


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
