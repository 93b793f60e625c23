"""The table that `mptctl bench` prints, and the sentence below it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str], spare: Sequence[str] = ()
) -> None:
    """Columns of ``words`` begin at the left, the others are numbers and end at the right; spare ones may go."""
    from rich.console import Console

    from mptctl.report.media.document import Column, Table
    from mptctl.report.media.terminal import print_parts

    order = {title: place for place, title in enumerate(spare, start=1)}
    made = [Column(title, words=title in words, spare=order.get(title, 0)) for title in columns]
    print_parts([Table(made, list(rows))], Console())


def conclude(sentence: str) -> None:
    """Say what a bench comes to, as its last line."""
    from rich.console import Console

    from mptctl.report.media.document import Note
    from mptctl.report.media.terminal import print_parts

    print_parts([Note(sentence, "strong", whole=True)], Console())
