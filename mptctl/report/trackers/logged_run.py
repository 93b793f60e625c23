"""Log a training run for `--log`: its recipe, curves and result, and the files that explain it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mptctl.files import write_atomically
from mptctl.machine.facts import rank
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.ownership import run_name
from mptctl.models.run_folder import RunDir
from mptctl.names import TrackerName
from mptctl.recipe import Recipe
from mptctl.report.media.training_progress import progress_observer
from mptctl.report.trackers.guarded import GuardedTracker
from mptctl.report.trackers.tracker import Entry
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest

# File of a run folder with the name of the run's entry in each tracker, so that later calls add to the entry.
ENTRIES = "trackers.json"


def warn(text: str) -> None:
    """Write a line to standard error, above a progress bar that is shown there."""
    sys.stderr.write(text + "\n")


def tracker_entries(folder: Path) -> dict[str, str]:
    """The names of a run's entries by tracker; empty if the run was never logged or the file is damaged."""
    try:
        entries = json.loads((folder / ENTRIES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {str(tracker): str(entry) for tracker, entry in entries.items()}


def logging_observer(request: RunRequest, names: Sequence[TrackerName]) -> Observer:
    """The observer of a run: it shows progress and, in the first worker, logs to the named trackers."""
    terminal = progress_observer()
    return LoggedRun(terminal, request, names) if names and rank() == 0 else terminal


class LoggedRun(Observer):
    """Logs a run to trackers, and passes each event on to another observer.

    Args:
        observer: of the terminal.
        request: the run.
        names: of the trackers.
    """

    def __init__(self, observer: Observer, request: RunRequest, names: Sequence[TrackerName]) -> None:
        self.observer = observer
        self.request = request
        self.names = names
        self._trackers: list[GuardedTracker] = []
        self._finished = False

    def progress(self, what: str, done: int, total: int) -> None:
        """Pass the progress on; it is not logged."""
        self.observer.progress(what, done, total)

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Open an entry in each tracker and log the recipe; a resumed run goes on with its entries."""
        self.observer.started(name, total_steps, step, notes)
        folder = self.request.folder
        run_root = self.request.split.run_root
        settings = flat_recipe(self.request.recipe)
        earlier_entries = tracker_entries(folder) if self.request.resume else {}
        for name in self.names:
            entry = Entry(run_name(folder, run_root), run_root, earlier_entries.get(name))
            tracker = GuardedTracker(name, entry, warn)
            if tracker.known_as is not None:
                self._remember_entry(name, tracker.known_as)
            if entry.known_as is None:
                tracker.do(lambda each: each.settings(settings))
            tracker.attach(RunDir(folder).recipe)
            self._trackers.append(tracker)

    def noted(self, note: str) -> None:
        """Pass the note on; it is not logged."""
        self.observer.noted(note)

    def line(self, line: MetricsLine) -> None:
        """Log the numbers of a line of ``metrics.jsonl``."""
        self.observer.line(line)
        values = line_values(line)
        if values:
            for tracker in self._trackers:
                tracker.do(lambda each: each.progress(values, line.step))

    def finished(self, result: FitResult) -> None:
        """Log the numbers of the result, and attach the log and the environment of the run."""
        self.observer.finished(result)
        self._finished = True
        summary = result.summary().model_dump(exclude_none=True)
        values = {key: float(value) for key, value in summary.items() if isinstance(value, int | float)}
        for tracker in self._trackers:
            tracker.do(lambda each: each.result(values, result.steps))
            tracker.attach(result.run.metrics, result.run.environment)

    def closed(self) -> None:
        """End the entries."""
        self.observer.closed()
        for tracker in self._trackers:
            tracker.do(lambda each: each.close(finished=self._finished))
        self._trackers = []

    def _remember_entry(self, tracker: TrackerName, entry: str) -> None:
        """Write the name of an entry to the run folder."""
        folder = self.request.folder
        content = json.dumps(tracker_entries(folder) | {tracker: entry}, indent=2)
        write_atomically(folder / ENTRIES, content.encode())


def line_values(line: MetricsLine) -> dict[str, float]:
    """The numbers of a line of ``metrics.jsonl`` by name, terms of the loss as ``terms/NAME``.

    Empty for a line that has no number but its epoch.
    """
    left_out = {"event", "step", "terms", "adjustment", "seconds_left"}
    values: dict[str, float] = line.model_dump(exclude_none=True, exclude=left_out)
    if values.keys() == {"epoch"}:
        return {}
    return values | {f"terms/{name}": value for name, value in (line.terms or {}).items()}


def flat_recipe(recipe: Recipe) -> dict[str, object]:
    """The values of a recipe by their keys as ``--set`` names them, such as ``optim.lr``."""
    groups: dict[str, dict[str, object]] = recipe.model_dump(mode="json")
    return {f"{group}.{key}": value for group, keys in groups.items() for key, value in keys.items()}
