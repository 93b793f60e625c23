"""Tables: lines that fit, names on the left, figures on the right, nothing but text in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mptctl.report.media.document import Column, Table
from mptctl.report.media.terminal import print_table


@pytest.mark.parametrize("terminal", [True, False])
def test_names_stand_on_the_left_and_figures_on_the_right(terminal: bool) -> None:
    console = Console(width=30, file=io.StringIO(), force_terminal=terminal, color_system=None)
    columns = [Column("model"), Column("flips"), Column("most to", words=True)]
    print_table(Table(columns, [["old", "7", "a"]]), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    head, row = lines[0], lines[-1]
    assert row.index("old") == head.index("model") == 0
    assert row.index("7") == head.index("flips") + len("flips") - 1
    assert row.index("a") == head.index("most to")
    assert any("─" in line for line in lines) is terminal


def test_long_names_are_folded_and_none_is_cut() -> None:
    console = Console(width=20, file=io.StringIO())
    print_table(Table([Column("model"), Column("flips")], [["x" * 30, "7"]]), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("x") == 30
    assert max(len(line) for line in text.splitlines()) <= 20
