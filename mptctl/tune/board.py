"""The board of a search: the state of every trial, written to ``trials.json`` whenever one begins or ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune import Callback

from mptctl.errors import first_line
from mptctl.evaluation.statistics import rate
from mptctl.recipe.search import TrialSettings, name_of
from mptctl.tune.choice import choose
from mptctl.tune.trial import TrialPlan
from mptctl.tune.tune_report import Status, Trial, TuneReport, write_report


class TrialTracker(Callback):  # type: ignore[misc]  # Ray has no types
    """Keeps the state of every trial, which Ray's callbacks change.

    Args:
        report: of the search before it begins, with the trials of an earlier start.
        folder: of ``trials.json``.
        plan: of all trials.
        on_update: called with the report whenever a trial changes.
    """

    def __init__(
        self, report: TuneReport, folder: Path, plan: TrialPlan, on_update: Callable[[TuneReport], None]
    ) -> None:
        self._report = report
        self._folder = folder
        self._plan = plan
        self._on_update = on_update
        self._started = time.monotonic()
        self._trials = {trial.name: trial for trial in report.trials}
        # Seconds of each trial in earlier starts, to which those of the present start are added.
        self._before = {trial.name: trial.seconds for trial in report.trials}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle to nothing: Ray writes its callbacks to the disk, where this one is not needed."""
        return {}

    def add(self, settings: TrialSettings) -> str:
        """Put a trial on the board, unless one of these settings is there; return its name."""
        name = name_of(settings)
        if name not in self._trials:
            self._trials[name] = Trial.model_validate(
                {"name": name, "settings": settings, "run": str(self._plan.folder / name)}
            )
            self._before[name] = 0.0
        return name

    def report(self) -> TuneReport:
        """The report of the search as it stands, with the choice among the trials so far."""
        choice = choose(list(self._trials.values()), self._report.reference.val_error, self._report.budget)
        return self._report.model_copy(
            update={
                "trials": choice.trials,
                "front": choice.front,
                "choice": choice.ranked[0] if choice.ranked else None,
                "seconds": round(time.monotonic() - self._started, 3),
            }
        )

    def write(self) -> None:
        """Write ``trials.json``, and call `on_update` with the report."""
        report = self.report()
        write_report(self._folder, report)
        self._on_update(report)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that a process began or resumed a trial."""
        name = self._name(trial)
        self._before[name] = self._trials[name].seconds
        self._set_status(name, "running", error=None)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Note that a trial finished an epoch, came to its end, or failed; ``trials.json`` is not written."""
        name = self._name(trial)
        changes: dict[str, Any] = {"seconds": round(self._before[name] + result["seconds"], 3)}
        if result.get("error") is not None:
            changes |= {"status": "failed", "error": result["error"]}
        else:
            finished = result["finished"]
            changes |= {
                "status": "done" if finished else "running",
                "epoch": self._report.epochs if finished else result["epoch"],
                "val_error": rate(result["errors"], self._report.samples),
                "val_nfr": rate(result["flips"], self._report.samples_old),
            }
        self._trials[name] = self._trials[name].model_copy(update=changes)
        self._on_update(self.report())

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that the process of a trial has ended; a trial that is not at its end was stopped early."""
        name = self._name(trial)
        status = self._trials[name].status
        self._set_status(name, "stopped" if status == "running" else status)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that a process died, and that another one will resume its trial."""
        name = self._name(trial)
        self._set_status(name, "waiting", restarts=self._trials[name].restarts + 1)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that the process of a trial died too often, and that the trial has failed."""
        error = trial.get_pickled_error()
        reason = "unknown" if error is None else first_line(error)[:300]
        self._set_status(self._name(trial), "failed", error=f"its process died: {reason}")

    def _name(self, trial: Any) -> str:
        """The name of a trial of Ray's; a new one, which a searcher proposed, is put on the board."""
        return self.add(self._plan.settings(trial.config))

    def _set_status(self, name: str, status: Status, **changes: Any) -> None:
        """Change the status and further fields of a trial unless it is done, and write ``trials.json``."""
        if self._trials[name].status != "done":
            self._trials[name] = self._trials[name].model_copy(update={"status": status, **changes})
        self.write()
