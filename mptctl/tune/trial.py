"""Trials: the training of `mptctl train-mpt` in a process of Ray's, of one or of several in lock-step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune

from mptctl.data.held_split import find_split, relocate
from mptctl.errors import MptctlError, one_line
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import rate
from mptctl.models.metrics_log import MetricsLine, best_epoch, read_metrics
from mptctl.models.records import Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.unfinished import train_unfinished, write_traceback
from mptctl.tune.choice import objective
from mptctl.tune.space import TrialSettings, complete_settings, name_of, recipe_of, rounded_point
from mptctl.tune.tune_report import ERROR_NAME

# The figures that a failed trial tells the search: worse than any other's, in all that it may look at.
WORST = {"epoch": 1, "latest_nfr": 1.0, "objective": 2.0}


@dataclass(frozen=True)
class TrialPlan:
    """The common part of all trials of a search; travels to Ray's processes.

    Attributes:
        recipe: the common recipe.
        run_root: where the split is, if no teacher holds it.
        folder: where trials have their run folders.
        old, refs: checkpoints of the teachers.
        cpus: threads that a trial may use.
        on_gpu: whether a trial has a part of a GPU.
        reference: validation error of the reference.
        samples_old: validation samples of old classes.
        max_er_increase: a fraction; None where the choice is bound by its NFR.
        data_root: as of `TuneRequest`.
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
    data_root: Path | None = None

    def settings(self, config: dict[str, Any]) -> list[TrialSettings]:
        """Complete settings of the trials that one process trains, from what Ray gives it."""
        points = config["points"] if "points" in config else [rounded_point(config)]
        return [complete_settings(self.recipe, point) for point in points]

    def request(self, settings: TrialSettings) -> RunRequest:
        """The request for a trial's training, which goes on where one of these settings has begun."""
        runtime = {"runtime.device": "cuda" if self.on_gpu else "cpu", "runtime.threads": self.cpus}
        name = name_of(settings)
        recipe = change_recipe(
            recipe_of(self.recipe, settings), {**runtime, "data.threads": self.cpus}, f"of trial {name}"
        )
        teachers = [path.parent for path in (self.old, *self.refs)]
        split = relocate(find_split(self.run_root, teachers), self.data_root)
        return RunRequest(recipe, split, self.folder / name, self.old, self.refs).resume_or_restart()

    def figures(self, line: MetricsLine) -> tuple[Rate, Rate]:
        """Error on all classes and NFR of a validation, each with its count."""
        counts = Validation.from_figures(line.model_dump(), int(self.reference.of), self.samples_old)
        return rate(counts.errors, counts.samples), rate(counts.flips or 0, counts.samples_old)


def run_trials(config: dict[str, Any], plan: TrialPlan) -> None:
    """Train one trial, or several in lock-step, or go on with them, and report after every epoch of each.

    A trial that fails reports why and ends, so that the others go on and it is not started again; only one
    whose process dies is.
    """
    started, trials = time.monotonic(), {plan.folder / name_of(each): each for each in plan.settings(config)}

    def request_of(folder: Path) -> RunRequest:
        (folder / ERROR_NAME).unlink(missing_ok=True)
        return plan.request(trials[folder])

    def observer_of(folder: Path) -> _Reporter:
        return _Reporter(plan, folder.name, started, len(trials))

    ended = train_unfinished(list(trials), request_of, observer_of)
    for folder in trials:
        if folder in ended:
            tune.report(_failed(folder, started, ended[folder]))
        else:
            tune.report(_report(plan, folder.name, started, len(trials), finished=True))


def _failed(folder: Path, started: float, error: Exception) -> dict[str, Any]:
    """The report of a failed trial for Ray; an unexpected error is written into its folder."""
    text, kind = one_line(error), type(error).__name__
    if not isinstance(error, MptctlError):
        write_traceback(folder / ERROR_NAME, error)
        text = text if text == kind else f"{kind}: {text}"
    return {"trial": folder.name, "error": text[:500], "seconds": time.monotonic() - started, **WORST}


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
    """The figures of a trial for Ray; runs in lock-step share the seconds since their start."""
    lines = read_metrics(RunDir(plan.folder / name).metrics)
    best, latest = best_epoch(lines), [line for line in lines if line.event == "epoch"][-1]
    assert best is not None, "a search has a validation part"
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
