"""Texts of results in every medium, kept under golden/, so that a change of any of them is seen."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from rich.console import Console

from mptctl import __version__
from mptctl.report.media.document import Document
from mptctl.report.media.terminal import print_document

KEPT = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare a text with the one that is kept; MPTCTL_WRITE_LAYOUTS=1 keeps it, to be looked at.

    Of numbers in full, as tables for programs have them, nine digits count: the others are SciPy's version's.

    Args:
        name: of the file.
        text: what a medium makes of a result.
    """
    kept = KEPT / name
    if os.environ.get("MPTCTL_WRITE_LAYOUTS"):
        kept.write_text(text, encoding="utf-8")
    assert to_nine_digits(text) == to_nine_digits(kept.read_text(encoding="utf-8")), name


def to_nine_digits(text: str) -> str:
    """The text with all numbers of more digits rounded."""
    return re.sub(r"\d\.\d{9,}(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", text)


def piped(document: Document) -> str:
    """What goes into a pipe that is taken for 80 columns."""
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    print_document(document, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def coloured(document: Document) -> str:
    """What a terminal of 80 columns and 16 colours is told; escapes are written as such."""
    console = Console(
        width=80, height=24, file=io.StringIO(), force_terminal=True, color_system="standard",
        legacy_windows=False, no_color=False,
    )  # fmt: skip
    print_document(document, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.replace("\x1b", "␛")


def readable_page(page: str) -> str:
    """A page without what matplotlib draws, its style and its scripts, and without the version."""
    body = page[page.index("<body>") :].replace(f"mptctl {__version__}", "mptctl VERSION")
    for tag in ("svg", "script", "style", "template"):
        body = re.sub(rf"(<{tag}\b[^>]*>).*?(</{tag}>)", r"\1\2", body, flags=re.DOTALL)
    return re.sub(r'(<svg) viewBox="[^"]*"', r"\1", body)
