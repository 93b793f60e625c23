"""The search itself: run the trials with Ray Tune, choose, write the recipe."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from mptctl.errors import GateFailed, Stopped
from mptctl.files import write_atomically
from mptctl.machine.cluster import MAX_RESTARTS, quiet, ray_cluster, silence_stdout
from mptctl.machine.signals import StopRequest, interruptible
from mptctl.models.lock import locked
from mptctl.models.ownership import left_alone, remove_own
from mptctl.names import Progress
from mptctl.tune.choice import choose, objective
from mptctl.tune.folder import BEST_NAME, HEADLINE, RAY, SEARCH, write_report
from mptctl.tune.prepare import Baseline, measure_baseline
from mptctl.tune.request import TuneRequest, checked_points
from mptctl.tune.second_best import compare_best_two
from mptctl.tune.space import TrialSettings, name_of, recipe_of
from mptctl.tune.tune_report import Trial, TuneReport

# ASHA gives up all but every third trial at each of its looks (Li et al., MLSys 2020, use 3 or 4).
ASHA_REDUCTION = 3

OnUpdate = Callable[[TuneReport], None]


def sweep(
    request: TuneRequest,
    on_update: OnUpdate,
    log: Callable[[str], None],
    progress: Progress,
) -> TuneReport:
    """Search, choose, and write ``trials.json``, and ``best.yaml`` where a trial can be chosen.

    Args:
        request: what to do.
        on_update: called with the report whenever something changes.
        log: called with lines of progress.
        progress: told how many pictures are decoded before the first trial.

    Raises:
        UsageError: no validation part, a setting that is not valid, or a folder in use.
        Stopped: a signal asked for it.
        MptctlError: what a training run raises.
    """
    points = checked_points(request)
    best = request.folder / BEST_NAME
    with ExitStack() as stack:
        stack.enter_context(locked(request.folder, SEARCH, request.existing))
        stop = StopRequest()
        try:
            with interruptible(stop):
                baseline = stack.enter_context(measure_baseline(request, points, log, progress))
                if request.overwrite:  # only now that everything else is known to be in order
                    for note in left_alone(remove_own(request.folder, SEARCH)):
                        log(note)
                best.unlink(missing_ok=True)
                report = _run_trials(request, baseline.report, points, on_update, stop)
        except KeyboardInterrupt:
            raise Stopped(
                f"{request.folder}: stopped; what is done is kept",
                stop.signum or signal.SIGINT,
                resumable=True,
            ) from None
        report = _write_choice(request, report, baseline)
        write_report(request.folder, report)
        return report


def _write_choice(request: TuneRequest, report: TuneReport, baseline: Baseline) -> TuneReport:
    """Write ``best.yaml`` where a trial can be chosen; the report with it and the second best."""
    ranked = choose(report.trials, report.reference.val_error, report.budget).ranked
    if not ranked:
        return report
    chosen, best = report.trial(ranked[0]), request.folder / BEST_NAME
    if len(ranked) > 1 and request.budget.max_nfr is None:
        second = report.trial(ranked[1])
        comparison = compare_best_two(chosen, second, request.split, request.recipe, baseline)
        report = report.model_copy(update={"second": comparison})
    recipe = recipe_of(request.recipe, chosen.settings)
    write_atomically(best, (_headline(report) + recipe.to_yaml()).encode())
    return report.model_copy(update={"best_recipe": str(best)})


def refuse_if_none(report: TuneReport) -> None:
    """Raise where the search chose nothing.

    Raises:
        GateFailed: names the trial with the lowest error, and what to do.
    """
    if report.choice is not None:
        return
    errors = {t.name: t.val_error for t in report.trials if t.status == "done" and t.val_error is not None}
    if not errors:
        raise GateFailed(f"none of {len(report.trials)} trials came to its end; trials.json says why")
    if report.max_er_increase is None or report.error_bound is None:
        raise GateFailed(_over_budget(report))
    lowest = min(errors, key=lambda name: errors[name].count)
    raise GateFailed(
        f"no trial has a validation error of at most {100 * report.error_bound:.2f} % (the reference's plus "
        f"{100 * report.max_er_increase:g} points); the lowest is {100 * (errors[lowest].value or 0.0):.2f} %, of "
        f"{lowest}; no recipe was written; {_what_to_do(report)}"
    )


def _over_budget(report: TuneReport) -> str:
    """That no trial keeps a budget of flips, with the least that a whole one has."""
    whole = [t for t in report.trials if t.status == "done" and t.val_nfr is not None]
    least = min(whole, key=lambda trial: trial.val_nfr.count if trial.val_nfr else 0)
    assert least.val_nfr is not None
    nfr, bound = least.val_nfr, least.nfr_at_most
    return (
        f"--max-nfr {100 * (report.max_nfr or 0.0):g}: no trial is shown to keep it with "
        f"{100 * report.budget.confidence:g} % confidence; the least NFR is {100 * (nfr.value or 0.0):.2f} % "
        f"({nfr.count:g} of {nfr.of:,g} validation pictures of old classes), at most "
        f"{100 * (1.0 if bound is None else bound):.2f} %, of {least.name}; no recipe was written; raise the budget, "
        "search larger k, or hold out more pictures"
    )


def _what_to_do(report: TuneReport) -> str:
    longer = report.reference.epochs
    if longer is not None and report.epochs < longer:
        return (
            f"trials of {report.epochs} epochs are held against a reference of {longer}, which is the likely cause: "
            f"search with --set optim.epochs={longer}"
        )
    return "widen the search, or raise --max-er-increase"


def _run_trials(
    request: TuneRequest,
    report: TuneReport,
    points: list[TrialSettings] | None,
    on_update: OnUpdate,
    stop: StopRequest,
) -> TuneReport:
    """Run what is not done yet, and wait for it."""
    begin = time.monotonic()
    earlier = [trial for trial in report.trials if trial.status in ("done", "stopped")]
    done = {trial.name for trial in earlier}
    left = None if points is None else [point for point in points if name_of(point) not in done]
    count = len(left) if left is not None else request.trials - len(earlier)
    quiet(request.ray_address)
    from mptctl.tune.board import TrialTracker
    from mptctl.tune.trial import TrialPlan

    plan = TrialPlan(
        recipe=request.recipe,
        run_root=request.split.run_root.resolve(),
        folder=(request.folder / "trials").resolve(),
        old=request.old.resolve(),
        refs=tuple(path.resolve() for path in request.refs),
        cpus=request.cpus_per_trial,
        on_gpu=request.gpus_per_trial > 0,
        reference=report.reference.val_error,
        samples_old=report.samples_old,
        max_er_increase=report.max_er_increase,
    )
    board = TrialTracker(report, request.folder, plan, on_update)
    for point in points or []:
        board.add(point)
    board.write()
    if count > 0:
        takes = (request.cpus_per_trial, request.gpus_per_trial)
        with silence_stdout(), ray_cluster(request.ray_address, *takes, stop):
            try:
                _fit(request, plan, board, left, count, earlier)
            finally:
                board.write()
                with suppress(FileNotFoundError):
                    remove_own(request.folder / "ray", RAY)
                    (request.folder / "ray").rmdir()
    return board.report().model_copy(update={"seconds": round(time.monotonic() - begin, 3)})


def _fit(
    request: TuneRequest,
    plan: Any,
    board: Any,
    left: list[TrialSettings] | None,
    count: int,
    earlier: list[Trial],
) -> None:
    """Hand the trials to Ray Tune."""
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

    from mptctl.tune.trial import run_trials

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


def _optuna(request: TuneRequest, plan: Any, earlier: list[Trial]) -> Any:
    """Optuna's search, told what is known already."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, Any] = {
        axis.name: optuna.distributions.FloatDistribution(*axis.range, log=axis.logarithmic)
        if axis.range
        else optuna.distributions.CategoricalDistribution(axis.values)
        for axis in request.axes
    }
    known = [
        t
        for t in earlier
        if t.status == "done" and t.val_error and t.val_nfr and set(space) <= set(t.settings)
    ]
    bound = (plan.reference, plan.max_er_increase)
    return OptunaSearch(
        space=space,
        metric="objective",
        mode="min",
        # Another seed where an earlier search is gone on with, which would propose its first points again.
        seed=request.recipe.runtime.seed + len(earlier),
        points_to_evaluate=[{name: t.settings[name] for name in space} for t in known] or None,
        evaluated_rewards=[
            objective(t.val_error, t.val_nfr, *bound) for t in known if t.val_error and t.val_nfr
        ]
        or None,
    )


def _headline(report: TuneReport) -> str:
    chosen = report.trial(report.choice or "")
    assert chosen.val_nfr is not None
    assert chosen.val_error is not None
    kept = "" if chosen.nfr_at_most is None else f" (at most {100 * chosen.nfr_at_most:.2f} %)"
    return (
        f"{HEADLINE} among {len(report.trials)} trials, on validation samples: {chosen.name}, NFR "
        f"{chosen.val_nfr.count} / {chosen.val_nfr.of}{kept}, error {chosen.val_error.count} / {chosen.val_error.of}.\n"
    )
