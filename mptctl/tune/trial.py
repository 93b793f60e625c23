"""One trial: the same training as `mptctl train-mpt`, in a process of Ray's, which tells the search how it goes."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from mptctl.data.split import load_split
from mptctl.errors import MptctlError, one_line
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import rate
from mptctl.models.lock import wait_until_free
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.training.request import RunRequest
from mptctl.training.result import FitResult
from mptctl.training.train import train
from mptctl.training.validate import Validation
from mptctl.tune.choice import objective
from mptctl.tune.folder import ERROR_NAME
from mptctl.tune.space import TrialSettings, complete_settings, name_of, recipe_of, rounded_point


@dataclass(frozen=True)
class TrialPlan:
    """What all trials of a search have in common; travels to Ray's processes.

    Attributes:
        recipe: the common recipe.
        run_root: where the split is.
        folder: where trials have their run folders.
        old, refs: checkpoints of the teachers.
        cpus: threads that a trial may use.
        on_gpu: whether a trial has a part of a GPU.
        reference: validation error of the reference.
        samples_old: validation samples of old classes.
        max_er_increase: a fraction; None where the choice is bound by its NFR.
    """

    recipe: Recipe
    run_root: Path
    folder: Path
    old: Path
    refs: tuple[Path, ...]
    cpus: int
    on_gpu: bool
    reference: Rate
    samples_old: int
    max_er_increase: float | None

    def settings(self, config: dict[str, Any]) -> TrialSettings:
        """A trial's complete settings, from what Ray gives it."""
        point = config["point"] if "point" in config else rounded_point(config)
        return complete_settings(self.recipe, point)

    def job(self, settings: TrialSettings) -> RunRequest:
        """The run of a trial; it goes on where one of these settings has begun."""
        folder = self.folder / name_of(settings)
        recipe = recipe_of(self.recipe, settings)
        runtime = {"device": "cuda" if self.on_gpu else "cpu", "threads": self.cpus}
        recipe = recipe.model_copy(
            update={
                "runtime": recipe.runtime.model_copy(update=runtime),
                "data": recipe.data.model_copy(update={"threads": self.cpus}),
            }
        )
        begun = RunDir(folder).last.exists() or RunDir(folder).previous.exists()
        return RunRequest(
            recipe,
            load_split(self.run_root),
            folder,
            self.old,
            self.refs,
            resume=begun,
            overwrite=not begun,
        )

    def figures(self, line: MetricsLine) -> tuple[Rate, Rate]:
        """Error on all classes and NFR of a validation, each with its count."""
        found = Validation.from_figures(line.model_dump(), int(self.reference.of), self.samples_old)
        return rate(found.errors, found.samples), rate(found.flips or 0, found.samples_old)


def run_trial(config: dict[str, Any], plan: TrialPlan) -> None:
    """Train one trial, or go on with it, and report after every epoch.

    A trial that fails reports why and ends, so that the others go on and it is not started again; only one whose
    process dies is.
    """
    started = time.monotonic()
    settings = plan.settings(config)
    folder = RunDir(plan.folder / name_of(settings))
    try:
        wait_until_free(folder.path)
        if not is_finished(folder):
            (folder.path / ERROR_NAME).unlink(missing_ok=True)
            train(plan.job(settings), _Reporter(plan, folder, started))
        tune.report(_report(plan, folder, started, finished=True))
    except Exception as error:
        if not isinstance(error, MptctlError):
            folder.path.mkdir(parents=True, exist_ok=True)
            (folder.path / ERROR_NAME).write_text(traceback.format_exc(), encoding="utf-8")
        text, kind = one_line(error), type(error).__name__
        message = text if isinstance(error, MptctlError) or text == kind else f"{kind}: {text}"
        tune.report({"error": message[:500], "seconds": time.monotonic() - started, **_worst()})


def is_finished(folder: RunDir) -> bool:
    """Whether a run folder holds a run that came to its end."""
    return folder.best.exists() and any(line.event == "done" for line in read_metrics(folder.metrics))


def best_epoch(lines: list[MetricsLine]) -> MetricsLine | None:
    """The validation whose model ``best.pt`` is: lowest error, the latest of several."""
    epochs = [line for line in lines if line.event == "epoch" and line.val_error is not None]
    return min(reversed(epochs), key=lambda line: line.val_error or 0.0, default=None)


class _Reporter:
    """Tells Ray after every validation, once its checkpoint is on the disk."""

    def __init__(self, plan: TrialPlan, folder: RunDir, started: float) -> None:
        self._plan = plan
        self._folder = folder
        self._started = started
        self._validated = False

    def decoding(self, done: int, total: int) -> None:
        """Nothing: the search has had everything decoded before its first trial."""

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Nothing: Ray knows that it started the trial."""

    def line(self, line: MetricsLine) -> None:
        """Report an epoch when what it left can be resumed from."""
        if line.event == "epoch":
            self._validated = True
        elif line.event == "checkpoint" and self._validated:
            self._validated = False
            tune.report(_report(self._plan, self._folder, self._started, finished=False))

    def validating(self, done: int, total: int) -> None:
        """Nothing: the table shows whole epochs."""

    def finished(self, result: FitResult) -> None:
        """Nothing: the trial itself reports its end."""

    def closed(self) -> None:
        """Nothing: there is no display."""


def _report(plan: TrialPlan, folder: RunDir, started: float, *, finished: bool) -> dict[str, Any]:
    lines = read_metrics(folder.metrics)
    best = best_epoch(lines)
    assert best is not None, "a search has a validation part"
    latest = [line for line in lines if line.event == "epoch"][-1]
    error, nfr = plan.figures(best)
    return {
        "finished": finished,
        "epoch": latest.epoch,
        "latest_nfr": latest.val_nfr,
        "errors": error.count,
        "flips": nfr.count,
        "objective": objective(error, nfr, plan.reference, plan.max_er_increase),
        "seconds": time.monotonic() - started,
    }


def _worst() -> dict[str, float]:
    """What a failed trial tells the search: worse than any other, in every figure that it may look at."""
    return {"epoch": 1, "latest_nfr": 1.0, "objective": 2.0}
