"""The search itself: run the trials with Ray Tune, choose, write the recipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import torch

from mpt_kernels.correct import is_top1_correct
from mptctl.data.split import Split
from mptctl.errors import GateFailed
from mptctl.evaluation.rates import Counts, negative_flips
from mptctl.evaluation.statistics import SIGNIFICANT, mcnemar
from mptctl.files import write_atomically
from mptctl.inference.forward import forward
from mptctl.machine.cluster import ray_cluster, set_ray_environment, silence_stdout
from mptctl.machine.signals import StopRequest, stopped_with
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.lock import locked
from mptctl.models.ownership import note_left_files, remove_own
from mptctl.models.run_folder import RunDir
from mptctl.names import Progress, Role
from mptctl.recipe import Recipe
from mptctl.teachers.ensemble import Teacher
from mptctl.tune.choice import choose
from mptctl.tune.prepare import Baseline, measure_baseline
from mptctl.tune.request import TuneRequest, checked_points
from mptctl.tune.space import TrialSettings, name_of, recipe_of
from mptctl.tune.tune_report import (
    BEST_NAME,
    HEADLINE,
    RAY,
    SEARCH,
    Comparison,
    Trial,
    TuneReport,
    write_report,
)


def sweep(
    request: TuneRequest,
    on_update: Callable[[TuneReport], None],
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
    with ExitStack() as stack:
        stack.enter_context(locked(request.folder, SEARCH, request.existing))
        with stopped_with(f"{request.folder}: stopped; what is done is kept", resumable=True) as stop:
            baseline = stack.enter_context(measure_baseline(request, points, log, progress))
            if request.overwrite:  # only now that everything else is known to be in order
                for note in note_left_files(remove_own(request.folder, SEARCH)):
                    log(note)
            (request.folder / BEST_NAME).unlink(missing_ok=True)
            report = _run_trials(request, baseline.report, points, on_update, stop)
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
    write_atomically(best, (_headline(chosen, len(report.trials)) + recipe.to_yaml()).encode())
    return report.model_copy(update={"best_recipe": str(best)})


def refuse_if_none(report: TuneReport) -> None:
    """Refuses a search that chose nothing.

    Raises:
        GateFailed: names the trial that comes nearest to the limit, and what to do.
    """
    if report.choice is not None:
        return
    errors = {t.name: t.val_error for t in report.trials if t.status == "done" and t.val_error is not None}
    if not errors:
        raise GateFailed(f"none of {len(report.trials)} trials came to its end; trials.json says why")
    if report.max_er_increase is None or report.error_bound is None:
        raise GateFailed(_over_budget(report))
    lowest = min(errors, key=lambda name: errors[name].count)
    advice, longer = "widen the search, or raise --max-er-increase", report.reference.epochs
    if longer is not None and report.epochs < longer:
        advice = (
            f"trials of {report.epochs} epochs are held against a reference of {longer}, which is the likely "
            f"cause: search with --set optim.epochs={longer}"
        )
    raise GateFailed(
        f"no trial has a validation error of at most {100 * report.error_bound:.2f} % (the reference's plus "
        f"{100 * report.max_er_increase:g} points); the lowest is {100 * (errors[lowest].value or 0.0):.2f} "
        f"%, of {lowest}; no recipe was written; {advice}"
    )


def _over_budget(report: TuneReport) -> str:
    """Says that no trial keeps a budget of flips, with the least that a whole one has."""
    whole = [(t, t.val_nfr) for t in report.trials if t.status == "done" and t.val_nfr is not None]
    least, nfr = min(whole, key=lambda pair: pair[1].count)
    bound = least.nfr_at_most
    return (
        f"--max-nfr {100 * (report.max_nfr or 0.0):g}: no trial is shown to keep it with "
        f"{100 * report.budget.confidence:g} % confidence; the least NFR is {100 * (nfr.value or 0.0):.2f} % "
        f"({nfr.count:g} of {nfr.of:,g} validation pictures of old classes), at most "
        f"{100 * (1.0 if bound is None else bound):.2f} %, of {least.name}; no recipe was written; raise the "
        "budget, search larger k, or hold out more pictures"
    )


def _run_trials(
    request: TuneRequest,
    report: TuneReport,
    points: list[TrialSettings] | None,
    on_update: Callable[[TuneReport], None],
    stop: StopRequest,
) -> TuneReport:
    """Runs the trials that are not done yet, and waits for them."""
    begin = time.monotonic()
    earlier = [trial for trial in report.trials if trial.status in ("done", "stopped")]
    done = {trial.name for trial in earlier}
    left = None if points is None else [point for point in points if name_of(point) not in done]
    count = len(left) if left is not None else request.trials - len(earlier)
    set_ray_environment(request.ray_address)
    # After that, because they import Ray, which reads its settings then.
    from mptctl.tune.board import TrialTracker
    from mptctl.tune.ray_search import run_search
    from mptctl.tune.trial import TrialPlan

    plan = TrialPlan(
        recipe=request.recipe,
        run_root=request.split.run_root.resolve(),
        data_root=None if request.data_root is None else request.data_root.resolve(),
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
                run_search(request, plan, board, left, count, earlier)
            finally:
                board.write()
                with suppress(FileNotFoundError):
                    remove_own(request.folder / "ray", RAY)
                    (request.folder / "ray").rmdir()
    return board.report().model_copy(update={"seconds": round(time.monotonic() - begin, 3)})


def _headline(chosen: Trial, trials: int) -> str:
    """The first line of the chosen recipe: which trial it is, among how many, with its figures."""
    assert chosen.val_nfr is not None
    assert chosen.val_error is not None
    kept = "" if chosen.nfr_at_most is None else f" (at most {100 * chosen.nfr_at_most:.2f} %)"
    return (
        f"{HEADLINE} among {trials} trials, on validation samples: {chosen.name}, NFR "
        f"{chosen.val_nfr.count} / {chosen.val_nfr.of}{kept}, error {chosen.val_error.count} / "
        f"{chosen.val_error.of}.\n"
    )


def compare_best_two(
    chosen: Trial, second: Trial, split: Split, recipe: Recipe, baseline: Baseline
) -> Comparison:
    """Count the validation samples that one of two trials flips and the other does not.

    Args:
        chosen, second: whole trials.
        split, recipe: of the search.
        baseline: old model and validation part.
    """
    best = [RunDir(Path(trial.run)).best for trial in (chosen, second)]
    models = [
        Teacher(
            load_checkpoint(path),
            split.classes.names,
            recipe.data,
            baseline.device,
            recipe.runtime,
            str(path),
        )
        for path in best
    ]
    first, other = _flipped_by_one(models, baseline, split.classes.num_old)
    p = mcnemar(Counts(both_right=0, negative_flips=first, positive_flips=other, both_wrong=0))
    return Comparison(
        name=second.name,
        only_choice_flips=first,
        only_second_flips=other,
        p_value=p,
        differs=p < SIGNIFICANT,
    )


@torch.no_grad()
def _flipped_by_one(models: list[Teacher], baseline: Baseline, num_old: int) -> tuple[int, int]:
    """Counts the samples that only the first of two models flips, and those that only the second does."""
    first = second = 0
    for batch, answers in forward(models, baseline.val):
        old = baseline.old.logits(batch, {Role.OLD})[Role.OLD]
        right = is_top1_correct(old, batch.labels) & (batch.labels < num_old)
        one, other = (negative_flips(right, is_top1_correct(answer, batch.labels)) for answer in answers)
        first += int((one & ~other).sum())
        second += int((other & ~one).sum())
    return first, second
