"""Follows something that changes: a table that is drawn anew in a terminal, lines in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

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
