"""`--log` of a training run: recipe, curves, result, and the files that explain it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from mptctl.files import write_atomically
from mptctl.machine.facts import rank
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.run_folder import RunDir
from mptctl.names import TrackerName
from mptctl.recipe import Recipe
from mptctl.report.media.training_progress import progress_observer
from mptctl.report.trackers.background import Background, attach
from mptctl.report.trackers.tracker import Entry
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest

# In the run folder: what each tracker calls the run, so that whatever comes later is added there.
KNOWN_AS = "trackers.json"


def warn(text: str) -> None:
    """One line on standard error; a bar that is shown there lets it through."""
    sys.stderr.write(text + "\n")


def known_as(folder: Path) -> dict[str, str]:
    """The name that each tracker has for the run in a folder; empty where it was never logged."""
    with suppress(OSError, ValueError):
        found = json.loads((folder / KNOWN_AS).read_text(encoding="utf-8"))
        return {str(name): str(entry) for name, entry in found.items()} if isinstance(found, dict) else {}
    return {}


def observed(request: RunRequest, names: Sequence[TrackerName]) -> Observer:
    """Who is told how a run goes: the terminal, and trackers; of several workers the first alone has some."""
    terminal = progress_observer()
    return LoggedRun(terminal, request, names) if names and rank() == 0 else terminal


class LoggedRun(Observer):
    """An observer that hands on what it is told, and has it logged.

    Args:
        observer: that of the terminal.
        request: the run.
        names: of the trackers.
        say: takes warnings.
    """

    def __init__(
        self,
        observer: Observer,
        request: RunRequest,
        names: Sequence[TrackerName],
        say: Callable[[str], None] = warn,
    ) -> None:
        self.observer = observer
        self.request = request
        self.names = names
        self._say = say
        self._trackers: list[Background] = []
        self._finished = False
        self._writing = threading.Lock()

    def progress(self, what: str, done: int, total: int) -> None:
        """Handed on."""
        self.observer.progress(what, done, total)

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Open the run's entry in each tracker, or go on with it; a new one gets the recipe."""
        self.observer.started(name, total_steps, step, notes)
        request, folder = self.request, RunDir(self.request.folder)
        before = known_as(folder.path) if request.resume else {}
        settings = flat(request.recipe)
        for tracker in self.names:
            entry = Entry(_name(request), folder.path, request.split.run_root, before.get(tracker))
            opened = Background(tracker, entry, self._keep, self._say)
            if entry.known_as is None:
                opened.do(lambda to: to.settings(settings))
            attach(opened, folder.recipe)
            self._trackers.append(opened)

    def line(self, line: MetricsLine) -> None:
        """Log the numbers of the line."""
        self.observer.line(line)
        values = figures(line)
        if values:
            for tracker in self._trackers:
                tracker.do(lambda to: to.progress(values, line.step))

    def finished(self, result: FitResult) -> None:
        """Log what the run came to, and attach what explains it."""
        self.observer.finished(result)
        self._finished = True
        summary = result.summary().model_dump(exclude_none=True)
        values = {key: float(value) for key, value in summary.items() if isinstance(value, int | float)}
        for tracker in self._trackers:
            tracker.do(lambda to: to.result(values, result.steps))
            attach(tracker, result.run.metrics, result.run.environment)

    def closed(self) -> None:
        """End the entries; waits for what is still to be logged."""
        self.observer.closed()
        for tracker in self._trackers:
            tracker.close(finished=self._finished)
        self._trackers = []

    def _keep(self, tracker: TrackerName, entry: str) -> None:
        with self._writing:
            folder = self.request.folder
            content = json.dumps(known_as(folder) | {tracker: entry}, indent=2)
            write_atomically(folder / KNOWN_AS, content.encode())


def figures(line: MetricsLine) -> dict[str, float]:
    """The numbers of a line of ``metrics.jsonl`` by their names, parts of the loss below ``terms/``."""
    left_out = {"event", "step", "terms", "adjustment", "seconds_left"}
    values: dict[str, float] = line.model_dump(exclude_none=True, exclude=left_out)
    if values.keys() == {"epoch"}:
        return {}
    return values | {f"terms/{name}": value for name, value in (line.terms or {}).items()}


def flat(recipe: Recipe) -> dict[str, object]:
    """The keys of a recipe as ``--set`` names them, such as ``optim.lr``."""
    groups: dict[str, dict[str, object]] = recipe.model_dump(mode="json")
    return {f"{group}.{key}": value for group, keys in groups.items() for key, value in keys.items()}


def _name(request: RunRequest) -> str:
    """The run folder as the run root names it, such as ``mpt-kl`` or ``ensemble/1``."""
    folder, root = request.folder.resolve(), request.split.run_root.resolve()
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name
