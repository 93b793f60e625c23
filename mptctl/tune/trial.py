"""Trials: the training of `mptctl train-mpt` in a process of Ray's, of one or of several in lock-step."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune

from mptctl.data.split import load_split
from mptctl.errors import MptctlError, one_line
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import rate
from mptctl.models.lock import wait_until_free
from mptctl.models.metrics_log import MetricsLine, best_epoch, read_metrics
from mptctl.models.records import Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe
from mptctl.training.lockstep import train_in_lockstep
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
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

    def settings(self, config: dict[str, Any]) -> list[TrialSettings]:
        """Complete settings of the trials that one process trains, from what Ray gives it."""
        points = config["points"] if "points" in config else [rounded_point(config)]
        return [complete_settings(self.recipe, point) for point in points]

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


def run_trials(config: dict[str, Any], plan: TrialPlan) -> None:
    """Train one trial, or several in lock-step, or go on with them, and report after every epoch of each.

    A trial that fails reports why and ends, so that the others go on and it is not started again; only one whose
    process dies is.
    """
    started, together = time.monotonic(), plan.settings(config)
    ended: dict[str, FitResult | Exception] = {}
    try:
        left = []
        for settings in together:
            folder = RunDir(plan.folder / name_of(settings))
            wait_until_free(folder.path)
            if not folder.is_finished():
                (folder.path / ERROR_NAME).unlink(missing_ok=True)
                left.append(settings)
        observers = [_Reporter(plan, name_of(settings), started, len(together)) for settings in left]
        requests = [plan.job(settings) for settings in left]
        if len(together) == 1 and left:
            train(requests[0], observers[0])
        elif left:
            results = train_in_lockstep(requests, observers)
            ended = {name_of(settings): result for settings, result in zip(left, results, strict=True)}
    except Exception as error:
        ended = {name_of(settings): error for settings in together}
    for name in map(name_of, together):
        result = ended.get(name)
        if isinstance(result, Exception):
            tune.report(_failed(plan, name, started, result))
        else:
            tune.report(_report(plan, name, started, len(together), finished=True))


def _failed(plan: TrialPlan, name: str, started: float, error: Exception) -> dict[str, Any]:
    folder = plan.folder / name
    if not isinstance(error, MptctlError):
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(traceback.format_exception(error))
        (folder / ERROR_NAME).write_text(text, encoding="utf-8")
    text, kind = one_line(error), type(error).__name__
    message = text if isinstance(error, MptctlError) or text == kind else f"{kind}: {text}"
    return {"trial": name, "error": message[:500], "seconds": time.monotonic() - started, **_worst()}


class _Reporter(Observer):
    """Tells Ray of a trial after every validation, once its checkpoint is on the disk."""

    def __init__(self, plan: TrialPlan, name: str, started: float, together: int) -> None:
        self._report = partial(_report, plan, name, started, together)
        self._validated = False

    def line(self, line: MetricsLine) -> None:
        """Report an epoch when what it left can be resumed from."""
        if line.event == "epoch":
            self._validated = True
        elif line.event == "checkpoint" and self._validated:
            self._validated = False
            tune.report(self._report(finished=False))


def _report(plan: TrialPlan, name: str, started: float, together: int, *, finished: bool) -> dict[str, Any]:
    """How a trial stands; of the seconds since its start it has its part, where several take turns."""
    lines = read_metrics(RunDir(plan.folder / name).metrics)
    best = best_epoch(lines)
    assert best is not None, "a search has a validation part"
    latest = [line for line in lines if line.event == "epoch"][-1]
    error, nfr = plan.figures(best)
    return {
        "trial": name,
        "finished": finished,
        "epoch": latest.epoch,
        "latest_nfr": latest.val_nfr,
        "errors": error.count,
        "flips": nfr.count,
        "objective": objective(error, nfr, plan.reference, plan.max_er_increase),
        "seconds": (time.monotonic() - started) / together,
    }


def _worst() -> dict[str, float]:
    """What a failed trial tells the search: worse than any other, in every figure that it may look at."""
    return {"epoch": 1, "latest_nfr": 1.0, "objective": 2.0}
