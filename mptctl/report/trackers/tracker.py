"""The interface of trackers of experiments; each is a file NAME_tracker.py beside this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from mptctl.machine.facts import require_extra
from mptctl.names import TrackerName

# Project or experiment of a tracker, where its own environment variable does not name one.
PROJECT = "mptctl"


@dataclass(frozen=True)
class Entry:
    """A run to be logged.

    Attributes:
        name: title of the entry.
        root: the run root, where trackers without a server keep their files.
        known_as: the tracker's name of an entry to go on with; None: a new entry.
    """

    name: str
    root: Path
    known_as: str | None = None


class Tracker(Protocol):
    """One tracker. An error that it raises ends the logging only: see `GuardedTracker`."""

    def open(self, entry: Entry) -> str:
        """Begin the entry, or go on with it, and return the tracker's name of it."""

    def settings(self, values: Mapping[str, object]) -> None:
        """Log the recipe, by dotted keys; called once, for a new entry."""

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers of a training at an optimizer step."""

    def result(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers of the result, at the last optimizer step."""

    def attach(self, file: Path) -> None:
        """Keep a copy of a file, if the tracker can show it."""

    def close(self, *, finished: bool) -> None:
        """End the entry: its run came to its end or, if not finished, stopped and may go on."""


def require_trackers(names: Iterable[TrackerName] | None) -> list[TrackerName]:
    """Check that the packages of trackers are installed, and return the names, each once.

    Raises:
        UsageError: the package of a tracker is not installed.
    """
    wanted = list(dict.fromkeys(names or ()))
    for name in wanted:
        require_extra(name, name, f"--log {name}")
    return wanted


def make_tracker(name: TrackerName) -> Tracker:
    """Make the tracker of a name: TRACKER, the class in its module, which imports its package."""
    module = import_module(f"mptctl.report.trackers.{name}_tracker")
    tracker: Tracker = module.TRACKER()
    return tracker
