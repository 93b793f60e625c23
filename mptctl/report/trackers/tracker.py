"""The calls that a tracker of experiments takes; each is a file beside this one, found by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from mptctl.machine.facts import require_extra
from mptctl.names import TrackerName

# What a team's tracker files these runs under, where its own variable of the environment does not say.
PROJECT = "mptctl"


@dataclass(frozen=True)
class Entry:
    """A run, or a comparison, that a tracker makes an entry for.

    Attributes:
        name: what people see.
        folder: of the run; of a comparison of no run, the run root.
        root: the run root, where a tracker without a server keeps what it is told.
        known_as: what the tracker called the entry before; None for a new one.
    """

    name: str
    folder: Path
    root: Path
    known_as: str | None = None


class Tracker(Protocol):
    """One tracker. Whatever it raises ends the logging, and nothing else: see `Background`."""

    def open(self, entry: Entry) -> str:
        """Begin the entry, or go on with it; what the tracker calls it."""

    def settings(self, values: Mapping[str, object]) -> None:
        """The recipe, or what was compared; asked for once, when an entry is new."""

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Numbers of a training that goes on; `step` counts optimizer steps."""

    def result(self, values: Mapping[str, float], step: int) -> None:
        """Numbers of the result."""

    def attach(self, file: Path) -> None:
        """Keep a copy of a file."""

    def close(self, *, finished: bool) -> None:
        """End the entry: it came to its end, or it stopped and may go on."""


def require_trackers(names: Iterable[TrackerName] | None) -> list[TrackerName]:
    """The trackers that were named, each once. UsageError where the package of one is not installed."""
    wanted = list(dict.fromkeys(names or ()))
    for name in wanted:
        require_extra(_module(name).PACKAGE, name, f"--log {name}")
    return wanted


def make_tracker(name: TrackerName) -> Tracker:
    """The tracker of a name; its package is imported here."""
    made: Tracker = _module(name).TRACKER()
    return made


def _module(name: TrackerName) -> Any:
    """The file of a tracker: PACKAGE, which the extra of its name installs, and TRACKER, its class."""
    return import_module(f"mptctl.report.trackers.{name}_tracker")
