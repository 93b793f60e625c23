"""Run the trials of a search with Ray Tune: listed or proposed by Optuna, and stopped early by ASHA."""

from __future__ import annotations

from typing import Any

import optuna
from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler
from ray.tune.search.optuna import OptunaSearch

from mptctl.machine.cluster import MAX_RESTARTS
from mptctl.recipe.search import TrialSettings
from mptctl.tune.board import TrialTracker
from mptctl.tune.choice import objective
from mptctl.tune.request import TuneRequest
from mptctl.tune.trial import TrialPlan, run_trial
from mptctl.tune.tune_report import Trial

# At each rung ASHA stops all but the best third of the trials (Li et al., MLSys 2020, use 3 or 4).
ASHA_REDUCTION = 3


def run_search(
    request: TuneRequest,
    plan: TrialPlan,
    board: TrialTracker,
    left: list[TrialSettings] | None,
    earlier: list[Trial],
) -> None:
    """Run the trials of a search, as many at a time as fit, and return when all have ended.

    Args:
        request: the search.
        plan: common to all trials.
        board: told of every change of a trial.
        left: settings of the trials to run; None: Optuna proposes as many as the search lacks.
        earlier: trials that ended before, from which Optuna learns.
    """
    proposes = left is None
    trainable = tune.with_resources(
        tune.with_parameters(run_trial, plan=plan),
        {"cpu": request.cpus_per_trial, "gpu": request.gpus_per_trial},
    )
    tune.Tuner(
        trainable,
        param_space={} if proposes else {"point": tune.grid_search(left)},
        tune_config=tune.TuneConfig(
            search_alg=_optuna_search(request, plan, earlier) if proposes else None,
            scheduler=_asha(board.report().epochs) if request.asha else FIFOScheduler(),
            num_samples=request.trials - len(earlier) if proposes else 1,
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


def _asha(epochs: int) -> ASHAScheduler:
    """ASHA, which stops the trials with the most flips early; a trial has so many epochs."""
    return ASHAScheduler(
        time_attr="epoch",
        metric="latest_nfr",
        mode="min",
        # One epoch more than a trial has, so that ASHA does not stop a trial at its end.
        max_t=epochs + 1,
        grace_period=max(1, epochs // ASHA_REDUCTION**2),
        reduction_factor=ASHA_REDUCTION,
    )


def _optuna_search(request: TuneRequest, plan: TrialPlan, earlier: list[Trial]) -> Any:
    """Make Optuna's search over the axes, with the objectives of the earlier trials that were finished."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, Any] = {
        axis.name: optuna.distributions.FloatDistribution(*axis.range, log=axis.log)
        if axis.range
        else optuna.distributions.CategoricalDistribution(axis.values)
        for axis in request.axes
    }
    points: list[dict[str, Any]] = []
    objectives: list[float] = []
    for trial in earlier:
        has_axes = space.keys() <= trial.settings.keys()
        if trial.status == "done" and trial.val_error and trial.val_nfr and has_axes:
            points.append({name: trial.settings[name] for name in space})
            objectives.append(objective(trial.val_error, trial.val_nfr, plan.reference, plan.max_er_increase))
    return OptunaSearch(
        space=space,
        metric="objective",
        mode="min",
        # Another seed for a search that is resumed: with the same one Optuna would repeat its first points.
        seed=request.recipe.runtime.seed + len(earlier),
        points_to_evaluate=points or None,
        evaluated_rewards=objectives or None,
    )
