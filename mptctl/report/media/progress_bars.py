"""Progress of passes over pictures, of runs and of trials: live in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from mptctl.names import Progress, Session
from mptctl.report.media.terminal import words

# Seconds between two lines of a log on one thing that goes on: it should stay readable.
LOG_SECONDS = 30.0
T = TypeVar("T")


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
    last_time: dict[str, float] = {}

    def tell(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        begun_or_said = last_time.setdefault(what, now)
        if now - begun_or_said >= LOG_SECONDS:
            last_time[what] = now
            say(f"{what}: {done:,} of {total:,}")

    return tell


def plain_line(console: Console, text: str) -> None:
    """Print a line as it is, whatever its length and signs."""
    console.print(words(text), soft_wrap=True, highlight=False)


@contextmanager
def follow(
    console: Console, view: Callable[[T], RenderableType], in_log: Callable[[T], None]
) -> Iterator[Callable[[T], None]]:
    """A function to be called with each new state.

    Args:
        console: on standard error.
        view: draws a state, in a terminal.
        in_log: says what is new of a state, where it is none.
    """
    if not console.is_terminal:
        yield in_log
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda state: live.update(view(state), refresh=True)


class State(NamedTuple):
    """One of the things that change, as a log tells it.

    Attributes:
        name: of the run or trial.
        status: of it; a wait for the first time is not told.
        restarts: in other processes.
        line: what is to be said of it.
    """

    name: str
    status: str
    restarts: int
    line: str


class ChangesLog(Generic[T]):
    """A line for each thing that begins, ends or goes on elsewhere, and one now and then on all of them.

    Args:
        console: where lines go.
        states: of each thing.
        summary: the line on all of them; None: there is none.
    """

    def __init__(
        self,
        console: Console,
        states: Callable[[T], Iterable[State]],
        summary: Callable[[T], str] | None = None,
    ) -> None:
        self._console, self._states, self._summary = console, states, summary
        self._seen: dict[str, tuple[str, int]] = {}
        self._last = time.monotonic()

    def __call__(self, content: T) -> None:
        """Say what has changed."""
        for state in self._states(content):
            now = (state.status, state.restarts)
            if self._seen.get(state.name, ("waiting", 0)) != now:
                self._say(state.line)
            self._seen[state.name] = now
        if self._summary is not None and time.monotonic() - self._last >= LOG_SECONDS:
            self._say(self._summary(content))

    def _say(self, line: str) -> None:
        self._last = time.monotonic()
        plain_line(self._console, line)
