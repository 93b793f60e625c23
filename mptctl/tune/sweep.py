"""The search: run the trials with Ray Tune, choose one, and write its recipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from mptctl.errors import GateFailed
from mptctl.files import write_atomically
from mptctl.machine.cluster import ray_cluster, refuse_if_silent, set_ray_environment, silence_stdout
from mptctl.machine.signals import StopRequest, stopped_with
from mptctl.models.lock import locked
from mptctl.models.ownership import note_left_files, remove_own
from mptctl.names import Progress
from mptctl.recipe.search import TrialSettings, name_of, recipe_at
from mptctl.tune.check import checked_points
from mptctl.tune.prepare import measure_baseline
from mptctl.tune.request import TuneRequest
from mptctl.tune.tune_report import BEST_NAME, RAY, SEARCH, Trial, TuneReport, write_report


def sweep(
    request: TuneRequest,
    on_update: Callable[[TuneReport], None],
    log: Callable[[str], None],
    progress: Progress,
) -> TuneReport:
    """Run a search, choose a trial, and write ``trials.json``; write ``best.yaml`` if a trial can be chosen.

    Args:
        request: the search.
        on_update: called with the report whenever a trial changes.
        log: called with lines of progress.
        progress: shows how many pictures are decoded before the first trial.

    Raises:
        UsageError: there is no validation part, a setting is not valid, or the folder is in use.
        Stopped: a signal came; the search can be resumed.
        MptctlError: as a training.
    """
    points = checked_points(request)
    refuse_if_silent(request.ray_address)
    with locked(request.folder, SEARCH, request.existing):
        with stopped_with(f"{request.folder}: stopped; what is done is kept", resumable=True) as stop:
            report = measure_baseline(request, points, log, progress)
            if request.overwrite:  # only after all checks
                for note in note_left_files(remove_own(request.folder, SEARCH)):
                    log(note)
            (request.folder / BEST_NAME).unlink(missing_ok=True)
            report = _run_trials(request, report, points, on_update, stop)
        report = _write_choice(request, report)
        write_report(request.folder, report)
        return report


def _write_choice(request: TuneRequest, report: TuneReport) -> TuneReport:
    """Write ``best.yaml`` if a trial can be chosen; return the report with its path."""
    if report.choice is None:
        return report
    chosen = report.trial(report.choice)
    best = request.folder / BEST_NAME
    recipe = recipe_at(request.recipe, chosen.settings)
    write_atomically(best, (_headline(chosen, len(report.trials)) + recipe.to_yaml()).encode())
    return report.model_copy(update={"best_recipe": str(best)})


def refuse_if_none(report: TuneReport) -> None:
    """Raise an error if a search chose no trial.

    Raises:
        GateFailed: no trial was chosen; the message names the trial nearest to the limit, and a remedy.
    """
    if report.choice is not None:
        return
    finished = [trial for trial in report.trials if trial.status == "done"]
    errors = {trial.name: trial.val_error for trial in finished if trial.val_error is not None}
    if not errors:
        raise GateFailed(f"none of {len(report.trials)} trials came to its end; trials.json says why")
    if report.max_er_increase is None or report.error_bound is None:
        raise GateFailed(_over_budget(report))
    lowest = min(errors, key=lambda name: errors[name].count)
    advice = "widen the search, or raise --max-er-increase"
    epochs = report.reference.epochs
    if epochs is not None and report.epochs < epochs:
        advice = (
            f"trials of {report.epochs} epochs are held against a reference of {epochs}, which is the likely "
            f"cause: search with --set optim.epochs={epochs}"
        )
    raise GateFailed(
        f"no trial has a validation error of at most {100 * report.error_bound:.2f} % (the reference's plus "
        f"{100 * report.max_er_increase:g} points); the lowest is {100 * (errors[lowest].value or 0.0):.2f} "
        f"%, of {lowest}; no recipe was written; {advice}"
    )


def _over_budget(report: TuneReport) -> str:
    """The message that no trial keeps a limit on NFR, with the least NFR of a finished trial."""
    rates = {
        trial.name: trial.val_nfr
        for trial in report.trials
        if trial.status == "done" and trial.val_nfr is not None
    }
    least = report.trial(min(rates, key=lambda name: rates[name].count))
    nfr = rates[least.name]
    bound = 1.0 if least.nfr_at_most is None else least.nfr_at_most
    return (
        f"--max-nfr {100 * (report.max_nfr or 0.0):g}: no trial is shown to keep it with "
        f"{100 * report.budget.confidence:.10g} % confidence; the least NFR is "
        f"{100 * (nfr.value or 0.0):.2f} % ({nfr.count:g} of {nfr.of:,g} validation pictures of old "
        f"classes), at most {100 * bound:.2f} %, of {least.name}; no recipe was written; raise the budget, "
        "search larger k, or hold out more pictures"
    )


def _run_trials(
    request: TuneRequest,
    report: TuneReport,
    points: list[TrialSettings] | None,
    on_update: Callable[[TuneReport], None],
    stop: StopRequest,
) -> TuneReport:
    """Run the trials that have not ended before, wait for all, and return the report with them.

    Args:
        request: the search.
        report: with the trials of an earlier search.
        points: settings of all trials; None: Optuna proposes them.
        on_update: called with the report whenever a trial changes.
        stop: set by a signal, on which trials save and stop.
    """
    started = time.monotonic()
    earlier = [trial for trial in report.trials if trial.status in ("done", "stopped")]
    ended = {trial.name for trial in earlier}
    left = None if points is None else [point for point in points if name_of(point) not in ended]
    is_done = request.trials <= len(earlier) if left is None else not left
    set_ray_environment(request.ray_address)
    # Imported after that, because Ray reads its settings when it is imported.
    from mptctl.tune.board import TrialTracker
    from mptctl.tune.ray_search import run_search
    from mptctl.tune.trial import TrialPlan

    plan = TrialPlan(
        recipe=request.recipe,
        run_root=request.split.run_root.resolve(),
        data_root=None if request.data_root is None else request.data_root.resolve(),
        folder=(request.folder / "trials").resolve(),
        old=request.old.resolve(),
        refs=tuple(path.resolve() for path in request.refs_of_trials),
        cpus=request.cpus_per_trial,
        on_gpu=request.gpus_per_trial > 0,
        reference=report.reference.val_error,
        max_er_increase=report.max_er_increase,
    )
    board = TrialTracker(report, request.folder, plan, on_update)
    for point in points or []:
        board.add(point)
    board.write()
    if not is_done:
        cpus, gpus = request.cpus_per_trial, request.gpus_per_trial
        with silence_stdout(), ray_cluster(request.ray_address, cpus, gpus, stop):
            try:
                run_search(request, plan, board, left, earlier)
            finally:
                board.write()
                with suppress(FileNotFoundError):
                    remove_own(request.folder / "ray", RAY)
                    (request.folder / "ray").rmdir()
    return board.report().model_copy(update={"seconds": round(time.monotonic() - started, 3)})


def _headline(chosen: Trial, trials: int) -> str:
    """The comment that the chosen recipe begins with: the trial, the number of trials, its NFR and error."""
    nfr, error = chosen.val_nfr, chosen.val_error
    if nfr is None or error is None:
        raise ValueError("a chosen trial has both rates")
    at_most = "" if chosen.nfr_at_most is None else f" (at most {100 * chosen.nfr_at_most:.2f} %)"
    return (
        f"# Chosen by mptctl tune among {trials} trials, on validation samples: {chosen.name}, NFR "
        f"{nfr.count} / {nfr.of}{at_most}, error {error.count} / {error.of}.\n"
    )
