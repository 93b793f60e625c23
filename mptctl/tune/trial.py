"""A trial in a process of Ray's: the training of `mptctl train-mpt`."""

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
from mptctl.recipe.search import TrialSettings, name_of, recipe_at, rounded
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train_unfinished, write_traceback
from mptctl.tune.choice import objective
from mptctl.tune.space import complete_settings
from mptctl.tune.tune_report import ERROR_NAME

# The figures that a failed trial reports to Ray, worse than those of any other trial.
WORST = {"epoch": 1, "latest_nfr": 1.0, "objective": 2.0}


@dataclass(frozen=True)
class TrialPlan:
    """The common part of all trials of a search; it is pickled for Ray's processes.

    Attributes:
        recipe: the common recipe.
        run_root: the folder of the split, if no teacher keeps it.
        folder: of the run folders of trials.
        old, refs: checkpoints of the teachers.
        cpus: threads of a trial.
        on_gpu: a trial has a GPU, or a part of one.
        reference: validation error of the reference.
        max_er_increase: limit on the increase of error, a fraction; None with a limit on NFR.
        data_root: see `TuneRequest`.
    """

    recipe: Recipe
    run_root: Path
    folder: Path
    old: Path
    refs: tuple[Path, ...]
    cpus: int
    on_gpu: bool
    reference: Rate
    max_er_increase: float | None
    data_root: Path | None = None

    def settings(self, config: dict[str, Any]) -> TrialSettings:
        """The complete settings of a trial, from Ray's ``config``: listed, or Optuna's."""
        if "point" in config:
            return complete_settings(self.recipe, config["point"])
        point = {key: each if isinstance(each, str) else rounded(each) for key, each in config.items()}
        return complete_settings(self.recipe, point)

    def request(self, settings: TrialSettings) -> RunRequest:
        """The request to train a trial, which is resumed if it has begun."""
        name = name_of(settings)
        device = "cuda" if self.on_gpu else "cpu"
        keys = {"runtime.device": device, "runtime.threads": self.cpus, "data.threads": self.cpus}
        recipe = change_recipe(recipe_at(self.recipe, settings), keys, f"of trial {name}")
        teachers = [path.parent for path in (self.old, *self.refs)]
        split = relocate(find_split(self.run_root, teachers), self.data_root)
        return RunRequest(recipe, split, self.folder / name, self.old, self.refs).resume_or_restart()


def run_trial(config: dict[str, Any], plan: TrialPlan) -> None:
    """Train or resume a trial, and report to Ray after every epoch.

    A trial that fails reports its error and is not started again. Ray starts a trial again only if its
    process dies.
    """
    started = time.monotonic()
    settings = plan.settings(config)
    folder = plan.folder / name_of(settings)

    def make_request() -> RunRequest:
        (folder / ERROR_NAME).unlink(missing_ok=True)
        return plan.request(settings)

    try:
        train_unfinished(folder, make_request, _Reporter(plan, folder.name, started))
    except Exception as error:  # any error ends this trial alone, and not the search
        tune.report(_figures_of_failed(folder, started, error))
    else:
        tune.report(trial_figures(plan, folder.name, started, finished=True))


def _figures_of_failed(folder: Path, started: float, error: Exception) -> dict[str, Any]:
    """The figures of a failed trial for Ray; writes the traceback of an unexpected error to its folder."""
    text = one_line(error)
    if not isinstance(error, MptctlError):
        write_traceback(folder / ERROR_NAME, error)
        kind = type(error).__name__
        if text != kind:  # as one without a message is shown
            text = f"{kind}: {text}"
    return {"error": text[:500], "seconds": time.monotonic() - started, **WORST}


class _Reporter(Observer):
    """Reports a trial to Ray after every epoch, once a checkpoint is on the disk, by `trial_figures`."""

    def __init__(self, plan: TrialPlan, name: str, started: float) -> None:
        self._figures = partial(trial_figures, plan, name, started)
        self._is_validated = False

    def line(self, line: MetricsLine) -> None:
        """Report to Ray at the first checkpoint after a validation, from which the trial can be resumed."""
        if line.event == "epoch":
            self._is_validated = True
        elif line.event == "checkpoint" and self._is_validated:
            self._is_validated = False
            tune.report(self._figures(finished=False))


def trial_figures(plan: TrialPlan, name: str, started: float, *, finished: bool) -> dict[str, Any]:
    """The figures of a trial for Ray, read from its metrics.

    Args:
        plan: of all trials.
        name: of the trial.
        started: time of the start of its process, by `time.monotonic`.
        finished: the trial is at its end.
    """
    lines = read_metrics(RunDir(plan.folder / name).metrics)
    latest = [line for line in lines if line.event == "epoch"][-1]
    best = best_epoch(lines)
    if best is None:
        raise ValueError("a search has a validation part")
    counts = Validation.from_figures(best.model_dump())
    error = rate(counts.errors, counts.samples)
    nfr = rate(counts.flips or 0, counts.samples_old)
    return {
        "finished": finished,
        "epoch": latest.epoch,
        "latest_nfr": latest.val_nfr,
        "errors": error.count,
        "flips": nfr.count,
        "objective": objective(error, nfr, plan.reference, plan.max_er_increase),
        "seconds": time.monotonic() - started,
    }
