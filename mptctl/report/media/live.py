"""Follows something that changes: a table that is drawn anew in a terminal, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

from mptctl.report.media.progress_bars import LOG_SECONDS, plain_line

T = TypeVar("T")


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
