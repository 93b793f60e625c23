"""Show the progress of passes over pictures, of runs and of trials: live in a terminal, else as lines."""

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
from mptctl.report.media.terminal import printable_text

# Least seconds between two lines of progress in a log, so that the log stays readable.
LOG_SECONDS = 30.0
T = TypeVar("T")


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Progress]:
    """Show how far passes over data are: bars in a terminal, a line every half minute elsewhere.

    Args:
        console: where to show it; None: standard error.

    Yields:
        A function that takes the name of a pass, the number of things done and their total.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield throttled_log(lambda text: print_plain_line(console, text))
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
    """Yield a copy of the session that shows progress on standard error until the ``with`` block ends."""
    with progress_bars() as progress:
        yield replace(session, progress=progress)


def throttled_log(say: Callable[[str], None]) -> Progress:
    """Make a progress function that says how far each pass is, at most every `LOG_SECONDS`.

    The first line on a pass comes `LOG_SECONDS` after its first call; a shorter pass has no line.

    Args:
        say: takes the line.
    """
    last_time: dict[str, float] = {}

    def report(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        begun_or_said = last_time.setdefault(what, now)
        if now - begun_or_said >= LOG_SECONDS:
            last_time[what] = now
            say(f"{what}: {done:,} of {total:,}")

    return report


def print_plain_line(console: Console, text: str) -> None:
    """Print a line without wrapping or markup; control characters are escaped."""
    console.print(printable_text(text), soft_wrap=True, highlight=False)


@contextmanager
def live_view(
    console: Console, draw: Callable[[T], RenderableType], log: Callable[[T], None]
) -> Iterator[Callable[[T], None]]:
    """Show the newest state of a study or search: redrawn in place in a terminal, logged elsewhere.

    Args:
        console: on standard error.
        draw: makes what a terminal shows of a state; the view is erased at the end.
        log: prints what is new in a state, where the console is no terminal.

    Yields:
        A function to be called with each new state.
    """
    if not console.is_terminal:
        yield log
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda state: live.update(draw(state), refresh=True)


class JobState(NamedTuple):
    """The state of a run or trial, as a log says it.

    Attributes:
        name: of the run or trial.
        status: of it, such as ``running``; ``waiting`` at first.
        restarts: how often it was begun again in another process.
        line: the line of the log.
    """

    name: str
    status: str
    restarts: int
    line: str


class ChangesLog(Generic[T]):
    """Prints a line for each run or trial whose status or restarts changed, and sometimes a summary.

    Args:
        console: where lines go.
        states: the states of all runs or trials in what the log is called with.
        summary: the line on all of them, printed after `LOG_SECONDS` without a line; None: no summary.
    """

    def __init__(
        self,
        console: Console,
        states: Callable[[T], Iterable[JobState]],
        summary: Callable[[T], str] | None = None,
    ) -> None:
        self._console = console
        self._states = states
        self._summary = summary
        self._seen: dict[str, tuple[str, int]] = {}
        self._last = time.monotonic()

    def __call__(self, content: T) -> None:
        """Print what has changed since the last call; a first status of ``waiting`` is no change."""
        for state in self._states(content):
            now = (state.status, state.restarts)
            if self._seen.get(state.name, ("waiting", 0)) != now:
                self._say(state.line)
            self._seen[state.name] = now
        if self._summary is not None and time.monotonic() - self._last >= LOG_SECONDS:
            self._say(self._summary(content))

    def _say(self, line: str) -> None:
        self._last = time.monotonic()
        print_plain_line(self._console, line)
