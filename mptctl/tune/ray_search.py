"""The trials of a search in Ray Tune: listed or chosen by Optuna, and given up early by ASHA."""

from __future__ import annotations

from typing import Any

import optuna
from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler
from ray.tune.search.optuna import OptunaSearch

from mptctl.machine.cluster import MAX_RESTARTS
from mptctl.tune.board import TrialTracker
from mptctl.tune.choice import objective
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import TrialSettings
from mptctl.tune.trial import TrialPlan, run_trials
from mptctl.tune.tune_report import Trial

# ASHA gives up all but every third trial at each of its looks (Li et al., MLSys 2020, use 3 or 4).
ASHA_REDUCTION = 3


def run_search(
    request: TuneRequest,
    plan: TrialPlan,
    board: TrialTracker,
    left: list[TrialSettings] | None,
    count: int,
    earlier: list[Trial],
) -> None:
    """Hands the trials to Ray Tune, which runs and, without a list of them, chooses them.

    Args:
        request: the search.
        plan: what every trial needs to know.
        board: is told how each trial is doing.
        left: settings of the trials that are not done; None: Optuna chooses them.
        count: trials that Optuna still chooses.
        earlier: trials that are done, which Optuna learns from.
    """
    space: dict[str, Any] = {}
    searcher = None
    if left is not None:
        together = range(0, len(left), request.lockstep)
        space = {"points": tune.grid_search([left[i : i + request.lockstep] for i in together])}
    else:
        searcher = _optuna(request, plan, earlier)
    epochs = board.report().epochs
    scheduler = FIFOScheduler()
    if request.asha:
        # One epoch more than there is: the end of a trial is its own to tell.
        scheduler = ASHAScheduler(
            time_attr="epoch",
            metric="latest_nfr",
            mode="min",
            max_t=epochs + 1,
            grace_period=max(1, epochs // ASHA_REDUCTION**2),
            reduction_factor=ASHA_REDUCTION,
        )
    trainable = tune.with_resources(
        tune.with_parameters(run_trials, plan=plan),
        {"cpu": request.cpus_per_trial, "gpu": request.gpus_per_trial},
    )
    tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            num_samples=1 if left is not None else count,
            max_concurrent_trials=request.max_concurrent,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str((request.folder / "ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=MAX_RESTARTS),
            callbacks=[board],
            verbose=0,
        ),
    ).fit()


def _optuna(request: TuneRequest, plan: TrialPlan, earlier: list[Trial]) -> Any:
    """Makes Optuna's search, which is told of earlier trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, Any] = {
        axis.name: optuna.distributions.FloatDistribution(*axis.range, log=axis.logarithmic)
        if axis.range
        else optuna.distributions.CategoricalDistribution(axis.values)
        for axis in request.axes
    }
    known = [
        (trial.settings, objective(trial.val_error, trial.val_nfr, plan.reference, plan.max_er_increase))
        for trial in earlier
        if trial.status == "done" and trial.val_error and trial.val_nfr and set(space) <= set(trial.settings)
    ]
    return OptunaSearch(
        space=space,
        metric="objective",
        mode="min",
        # Another seed where an earlier search is gone on with, which would propose its first points again.
        seed=request.recipe.runtime.seed + len(earlier),
        points_to_evaluate=[{name: settings[name] for name in space} for settings, _ in known] or None,
        evaluated_rewards=[reward for _, reward in known] or None,
    )
