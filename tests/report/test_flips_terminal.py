"""The flip table in a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mptctl.report.documents.flips import print_report
from tests.report.examples import example


@pytest.mark.parametrize("terminal", [True, False])
def test_it_fits_80_columns(terminal: bool) -> None:
    console = Console(width=80, height=60, file=io.StringIO(), force_terminal=terminal, color_system=None)
    print_report(example("a-class-with-quite-a-long-name"), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(len(line) for line in lines) <= 80
    assert "…" not in "".join(lines)


def test_lists_are_as_long_as_the_terminal_allows() -> None:
    lengths = {}
    for height in (24, 100):
        console = Console(width=80, height=height, file=io.StringIO(), force_terminal=True)
        print_report(example(many=60), console)
        lengths[height] = len(console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    assert lengths[24] < lengths[100] <= 100


def test_markup_in_names_stays_text() -> None:
    console = Console(width=80, file=io.StringIO())
    print_report(example("[red]x[/red]"), console, rows=0)
    assert "[red]x[/red]" in console.file.getvalue()  # type: ignore[attr-defined]
