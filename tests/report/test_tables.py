"""Tables: lines that fit, names on the left, figures on the right."""

from __future__ import annotations

import io
from operator import itemgetter

from rich.console import Console

from mptctl.report.media.document import Column, Document, Table
from mptctl.report.media.terminal import print_document


def printed(rows: list[tuple[str, str, str]], width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    columns = [
        Column[tuple[str, str, str]]("model", itemgetter(0)),
        Column[tuple[str, str, str]]("flips", itemgetter(1)),
        Column[tuple[str, str, str]]("most to", itemgetter(2), words=True),
    ]
    print_document(Document([Table(rows, columns)]), console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_names_stand_on_the_left_and_figures_on_the_right() -> None:
    head, row = printed([("old", "7", "a")], 30)
    assert row.index("old") == head.index("model") == 0
    assert row.index("7") == head.index("flips") + len("flips") - 1
    assert row.index("a") == head.index("most to")


def test_long_names_are_folded_and_none_is_cut() -> None:
    lines = printed([("x" * 30, "7", "a")], 30)
    assert "".join(lines).count("x") == 30
    assert max(map(len, lines)) <= 30
