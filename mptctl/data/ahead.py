"""Works ahead in threads: results come in the order of the items, while threads work on the next items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from mptctl.machine.facts import usable_cores
from mptctl.names import Progress

Item = TypeVar("Item")
Result = TypeVar("Result", covariant=True)


class Work(Protocol[Result]):
    """Work that has begun, such as a Future."""

    def result(self) -> Result:
        """Wait for the work, and return its result, or raise its error."""

    def cancel(self) -> object:
        """Drop the work that has not begun."""


class Started(Generic[Result]):
    """Work in several futures, with a last step in the calling thread.

    Args:
        futures: the work.
        finish: makes the result when all futures are done.
    """

    def __init__(self, futures: list[Future[None]], finish: Callable[[], Result]) -> None:
        self._futures, self._finish = futures, finish

    def result(self) -> Result:
        """Wait for all futures, and do the last step; raises the first error of a future."""
        for future in self._futures:
            future.result()
        return self._finish()

    def cancel(self) -> None:
        """Cancel the futures that have not begun."""
        for future in self._futures:
            future.cancel()


def map_ahead(
    start: Callable[[Item], Work[Result]], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """Yield the result of each item, in order; meanwhile the work on the next ``ahead`` items has begun.

    If the caller leaves early, work that has not begun is cancelled.
    """
    waiting: deque[Work[Result]] = deque()
    try:
        for item in items:
            waiting.append(start(item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for work in waiting:
            work.cancel()


def map_chunks(
    work: Callable[[range], Result],
    total: int,
    chunk: int,
    what: str,
    progress: Progress,
    *,
    threads: int = 0,
    begin: Callable[[], Any] | None = None,
) -> Iterator[Result]:
    """Yield the result of work on each chunk of the numbers from 0 to total - 1, in order, done in threads.

    After an error, Ctrl-C too, no thread begins another chunk.

    Args:
        work: takes the numbers of a chunk, in any thread.
        total: how many numbers there are.
        chunk: how many are done in one go.
        what: name of the work, for ``progress``.
        progress: told how many numbers are done.
        threads: number of threads; 0: the number of usable cores.
        begin: called at the beginning of each thread.
    """
    chunks = [range(start, min(start + chunk, total)) for start in range(0, total, chunk)]
    pool = ThreadPoolExecutor(threads or usable_cores(), initializer=begin)
    try:
        for done, result in zip(chunks, pool.map(work, chunks), strict=True):
            yield result
            progress(what, done.stop, total)
    finally:
        pool.shutdown(cancel_futures=True)
