"""A tracker in a thread of its own: what is slow or gone there neither slows nor ends what is logged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from mptctl.errors import one_line
from mptctl.names import TrackerName
from mptctl.report.trackers.tracker import Entry, Tracker, make_tracker

# Seconds that the end of a run waits for what is still to be logged.
PATIENCE = 30.0
# Seconds that a run waits which is stopped or fails: it is to end soon.
PATIENCE_OF_A_STOP = 3.0
# A server that takes this many calls too late is not waited for: later calls are dropped.
WAITING_CALLS = 10_000

Call = Callable[[Tracker], None]


class Background:
    """Calls to one tracker, made one after another in a thread.

    Whatever a call raises is said once, in one line, and ends the logging. So does the end of patience.

    Args:
        name: of the tracker.
        entry: what to open.
        opened: told, in that thread, what the tracker calls the entry.
        say: takes the warning, in the thread of the caller.
        patience: seconds that `close` waits for an entry that is finished.
    """

    def __init__(
        self,
        name: TrackerName,
        entry: Entry,
        opened: Callable[[TrackerName, str], None],
        say: Callable[[str], None],
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self.entry = entry
        self.patience = patience
        self._opened = opened
        self._say = say
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._problem: str | None = None
        self._said = False
        # A daemon: a server that does not answer must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"--log {name}", daemon=True)
        self._thread.start()

    def do(self, call: Call) -> None:
        """Have a call made, after all before it."""
        self._tell()
        if not self._said and self._calls.qsize() < WAITING_CALLS:
            self._calls.put(call)

    def close(self, *, finished: bool) -> None:
        """End the entry; return when all was logged, or patience is at its end."""
        self.do(lambda tracker: tracker.close(finished=finished))
        self._calls.put(None)
        patience = self.patience if finished else min(self.patience, PATIENCE_OF_A_STOP)
        self._thread.join(patience)
        if self._thread.is_alive():
            self._problem = f"has not taken everything {patience:g} s after the end; the rest is not logged"
        self._tell()

    def _work(self) -> None:
        try:
            tracker = make_tracker(self.name)
            self._opened(self.name, tracker.open(self.entry))
            while (call := self._calls.get()) is not None:
                call(tracker)
        except Exception as error:  # each library has its own errors, and none of them is the run's
            what = one_line(error)[:200] or type(error).__name__
            self._problem = f"failed ({what}); from here on nothing is logged there, and all else goes on"

    def _tell(self) -> None:
        if self._problem is not None and not self._said:
            self._said = True
            self._say(f"warning: --log {self.name}: {self._problem}")


def attach(background: Background, *files: Path) -> None:
    """Have files attached, of those that are there."""
    for file in files:
        if file.is_file():
            background.do(partial(_attach, file))


def _attach(file: Path, tracker: Tracker) -> None:
    tracker.attach(file)
