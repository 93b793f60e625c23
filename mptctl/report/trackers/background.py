"""Call a tracker in a thread of its own, so that a slow or failing tracker neither slows nor ends a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from mptctl.errors import one_line
from mptctl.names import TrackerName
from mptctl.report.trackers.tracker import Entry, Tracker, make_tracker

# Seconds that a finished run waits at its end for calls that are not made yet.
PATIENCE = 30.0
# Seconds that a stopped or failed run waits for them.
PATIENCE_OF_A_STOP = 3.0
# Calls that may wait for a slow server; further calls are dropped.
WAITING_CALLS = 10_000

Call = Callable[[Tracker], None]


class Background:
    """Makes the calls to one tracker one after another, in a thread that starts at once.

    If a call raises, or `close` has waited too long, logging ends with one warning and no error.

    Args:
        name: of the tracker.
        entry: to open first.
        opened: called in the thread with the tracker's name and the name that it gave the entry.
        say: takes the warning, in the thread of the caller.
        patience: seconds that `close` waits if the run is finished.
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
        self._thread = threading.Thread(target=self._make_calls, name=f"--log {name}", daemon=True)
        self._thread.start()

    def do(self, call: Call) -> None:
        """Queue a call and return at once; drop it after a failure or if too many calls wait.

        A failure that was not reported yet is reported first.
        """
        self._report_problem()
        if not self._said and self._calls.qsize() < WAITING_CALLS:
            self._calls.put(call)

    def close(self, *, finished: bool) -> None:
        """End the entry, and wait until all calls are made or the patience is over.

        Args:
            finished: the run came to its end; otherwise it was stopped or failed, and the wait is short.
        """
        self.do(lambda tracker: tracker.close(finished=finished))
        self._calls.put(None)
        patience = self.patience if finished else min(self.patience, PATIENCE_OF_A_STOP)
        self._thread.join(patience)
        if self._thread.is_alive():
            self._problem = f"has not taken everything {patience:g} s after the end; the rest is not logged"
        self._report_problem()

    def _make_calls(self) -> None:
        """Open the entry and make calls until None is queued; an error ends the thread and is kept."""
        try:
            tracker = make_tracker(self.name)
            self._opened(self.name, tracker.open(self.entry))
            while (call := self._calls.get()) is not None:
                call(tracker)
        except Exception as error:  # each library has its own errors, and none may end the run
            reason = one_line(error)[:200] or type(error).__name__
            self._problem = f"failed ({reason}); from here on nothing is logged there, and all else goes on"

    def _report_problem(self) -> None:
        """Pass the problem to `say`, once."""
        if self._problem is not None and not self._said:
            self._said = True
            self._say(f"warning: --log {self.name}: {self._problem}")


def attach(background: Background, *files: Path) -> None:
    """Queue calls that attach files to the entry; files that do not exist are skipped."""
    for file in files:
        if file.is_file():
            background.do(partial(_attach, file))


def _attach(file: Path, tracker: Tracker) -> None:
    tracker.attach(file)
