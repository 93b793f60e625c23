"""Progress of a pass over pictures: a bar in a terminal, a line each half minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from mptctl.names import Progress, Session
from mptctl.report.media.terminal import words

# Seconds between two lines of a log on one thing that goes on: it should stay readable.
LOG_SECONDS = 30.0


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Progress]:
    """Show how passes go.

    Args:
        console: where; default: standard error.

    Yields:
        To be told how far each pass is.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield throttled_log(lambda text: plain_line(console, text))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield show


@contextmanager
def showing_progress(session: Session) -> Iterator[Session]:
    """The session with progress shown on standard error."""
    with progress_bars() as progress:
        yield replace(session, progress=progress)


def throttled_log(say: Callable[[str], None]) -> Progress:
    """Says now and then how far each pass is."""
    last: dict[str, float] = {}

    def tell(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last.setdefault(what, now) >= LOG_SECONDS:
            last[what] = now
            say(f"{what}: {done:,} of {total:,}")

    return tell


def plain_line(console: Console, text: str) -> None:
    """Print a line as it is, whatever its length and signs."""
    console.print(words(text), soft_wrap=True, highlight=False)
