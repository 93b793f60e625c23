"""The flip table in a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mptctl.report.documents.flips import flips_document
from mptctl.report.media.terminal import print_document
from tests.report.examples import example
from tests.report.rendered import print_screen


@pytest.mark.parametrize("terminal", [True, False])
def test_it_fits_80_columns(terminal: bool) -> None:
    console = Console(width=80, height=60, file=io.StringIO(), force_terminal=terminal, color_system=None)
    print_screen(example("a-class-with-quite-a-long-name"), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(len(line) for line in lines) <= 80
    assert "…" not in "".join(lines)


def test_markup_in_names_stays_text() -> None:
    console = Console(width=80, file=io.StringIO())
    print_document(flips_document(example("[red]x[/red]"), rows=0), console)
    assert "[red]x[/red]" in console.file.getvalue()  # type: ignore[attr-defined]
