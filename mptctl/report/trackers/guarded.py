"""Pass calls to a tracker, whose failure ends its logging and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path

from mptctl.errors import one_line
from mptctl.names import TrackerName
from mptctl.report.trackers.tracker import Entry, Tracker, make_tracker


class GuardedTracker:
    """A tracker with an open entry; its first error is one warning, and later calls do nothing.

    Args:
        name: of the tracker.
        entry: to open.
        say: takes the warning.

    Attributes:
        known_as: the tracker's name of the entry; None where it could not be opened.
    """

    def __init__(self, name: TrackerName, entry: Entry, say: Callable[[str], None]) -> None:
        self.name = name
        self.known_as: str | None = None
        self._say = say
        self._tracker: Tracker | None = None
        with self._guard():
            self._tracker = make_tracker(name)
            self.known_as = self._tracker.open(entry)

    def do(self, call: Callable[[Tracker], None]) -> None:
        """Make a call, unless an earlier one failed."""
        if self._tracker is not None:
            with self._guard():
                call(self._tracker)

    def attach(self, *files: Path) -> None:
        """Attach the files that exist to the entry."""
        for file in filter(Path.is_file, files):
            self.do(methodcaller("attach", file))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn an error into a warning, and end the logging."""
        try:
            yield
        except Exception as error:  # each library has its own errors, and none may end the run
            self._tracker = None
            reason = one_line(error)[:200] or type(error).__name__
            self._say(
                f"warning: --log {self.name}: failed ({reason}); from here on nothing is logged there, and "
                "all else goes on"
            )
