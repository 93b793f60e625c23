"""The table that `mptctl bench` prints, and the sentence below it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str], spare: Sequence[str] = ()
) -> None:
    """Columns of ``words`` begin at the left, the others are numbers and end at the right; spare ones may go."""
    from rich.console import Console

    from mptctl.report.media.tables import make_table

    console = Console()
    table = make_table(console, *columns, left=words, spare=spare)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def conclude(sentence: str) -> None:
    """Say what a bench comes to, as its last line."""
    from rich.console import Console

    from mptctl.report.media.tables import say, words

    say(words(sentence, "bold"), Console())
