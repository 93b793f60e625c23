"""Works ahead in threads: results come in the order of the items, while threads work on the next items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from mptctl.machine.facts import usable_cores
from mptctl.names import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def after(futures: list[Future[None]], finish: Callable[[], Result]) -> Callable[[], Result]:
    """Make a function that waits for all futures, raises their first error, and returns `finish()`."""

    def wait() -> Result:
        for future in futures:
            future.result()
        return finish()

    return wait


def map_ahead(
    start: Callable[[Item], Callable[[], Result]], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """Yield the result of each item, in order; meanwhile the work on the next ``ahead`` items has begun.

    Args:
        start: begins the work on an item, and returns a function that waits for its result.
        items: the items.
        ahead: how many of the next items are in work.
    """
    waiting: deque[Callable[[], Result]] = deque()
    for item in items:
        waiting.append(start(item))
        if len(waiting) > ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()


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
        progress: shows how many numbers are done.
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
