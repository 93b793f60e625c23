"""How a pass over pictures goes: a bar where there is a terminal, a line each half minute where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mptctl.report.tables import words

# Seconds between two lines of a log on one thing that goes on: it should stay readable.
LOG_SECONDS = 30.0


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Show how passes go.

    Args:
        console: where; default: standard error.

    Yields:
        To be called with (what is under way, pictures done, pictures in all).
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        tellers: dict[str, Callable[[int, int], None]] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tellers:
                tellers[what] = throttled_log(what, lambda text: plain_line(console, text))
            tellers[what](done, total)

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield show


def throttled_log(what: str, say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Say now and then how far something is; takes (pictures done, pictures in all)."""
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_SECONDS:
            last = time.monotonic()
            say(f"{what}: {done:,} of {total:,}")

    return tell


def plain_line(console: Console, text: str) -> None:
    """Print a line as it is, whatever its length and signs."""
    console.print(words(text), soft_wrap=True, highlight=False)
