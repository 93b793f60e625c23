"""The start of a search: its dry run, the first trial checked, the reference, and an earlier search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch
from pydantic import Field, ValidationError

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.errors import UsageError, one_line
from mptctl.evaluation.statistics import rate
from mptctl.files import Model
from mptctl.machine.device import choose_device
from mptctl.models.lock import refuse_unusable
from mptctl.names import Progress, Role
from mptctl.recipe import differences, list_changeable_keys
from mptctl.recipe.search import TrialSettings, name_of, recipe_at
from mptctl.teachers.ensemble import Teachers
from mptctl.training.assemble import assemble
from mptctl.training.distributed import ProcessGroup
from mptctl.training.dry_run import DryRun
from mptctl.training.dry_run import dry_run as dry_run_of_run
from mptctl.training.request import RunRequest
from mptctl.tune.check import checked_points
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import complete_settings
from mptctl.tune.tune_report import SEARCH, TRIALS_NAME, Reference, TuneReport


def measure_baseline(
    request: TuneRequest,
    points: list[TrialSettings] | None,
    log: Callable[[str], None],
    progress: Progress,
) -> TuneReport:
    """Check that the first trial can start, decode all pictures, and measure the reference in validation.

    Decoded pictures, and with a cache the teachers' logits, stay on the disk for the trials.

    Args:
        request: the search.
        points: settings of all trials; None where they are not known.
        log: called with notes on the choice of loaders and caches.
        progress: shows how many pictures are decoded.

    Returns:
        The report of the search before its first trial, with the trials of an earlier search.

    Raises:
        UsageError: there is nothing to resume, or the folder holds another search.
        MptctlError: the first trial could not start.
    """
    device = choose_device(request.recipe.runtime.device)
    first = first_run(request, points)
    run = assemble(first, device, ProcessGroup(), progress)
    with closing(run):
        run.open()
        run.train.close()  # what it has decoded stays on the disk for the trials
        for note in (run.train.reason, *run.notes):
            log(note)
        teachers, validator = run.models, run.validator
        if teachers is None or validator is None:
            raise ValueError("a search has teachers and a validation part")
        if not request.refs_of_trials:  # trials load no reference, and its error bounds theirs all the same
            recipe = request.recipe
            classes = request.split.classes
            teachers = Teachers(request.old, request.refs, classes, recipe.data, recipe.runtime, device)
        samples, samples_old = first.val_samples
        report = TuneReport(
            sampler=request.sampler,
            axes=list(request.axes),
            asha=request.asha,
            epochs=run.epochs,
            max_er_increase=request.budget.max_er_increase,
            max_nfr=request.budget.max_nfr,
            confidence=None if request.budget.max_nfr is None else request.budget.confidence,
            reference=_measure_reference(request, teachers, validator.loader, samples),
            samples=samples,
            samples_old=samples_old,
            recipe=request.recipe,
            split_fingerprint=request.split.fingerprint,
            teachers=teachers.digests,
            trials=[],
        )
    return _with_earlier_trials(report, request.folder) if request.resume else report


def first_run(request: TuneRequest, points: list[TrialSettings] | None) -> RunRequest:
    """The request to train the first trial; without known trials, one with the recipe's settings."""
    settings = points[0] if points else complete_settings(request.recipe, {})
    folder = request.folder / "trials" / name_of(settings)
    recipe = recipe_at(request.recipe, settings)
    return RunRequest(recipe, request.split, folder, request.old, request.refs_of_trials)


@torch.no_grad()
def _measure_reference(request: TuneRequest, teachers: Teachers, val: Loader, samples: int) -> Reference:
    """Measure the validation error of the reference; of several the mean of their logits predicts.

    Args:
        request: the search.
        teachers: the references among them.
        val: loader of the validation part.
        samples: number of validation samples.
    """
    errors = 0
    for batch in val.epoch(0):
        logits = teachers.logits(batch, {Role.REF})[Role.REF]
        errors += int((~is_top1_correct(logits, batch.labels)).sum())
    metas = [teachers.metas[path] for path in request.refs]
    return Reference(
        runs=[str(path) for path in request.refs],
        val_error=rate(errors, samples),
        epochs=min((meta.recipe.optim.epochs for meta in metas if meta.origin == "trained"), default=None),
    )


def read_earlier(folder: Path) -> TuneReport:
    """Read the report of an earlier search from its folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = folder / TRIALS_NAME
    try:
        return TuneReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{folder}: nothing to resume; start without --resume") from None
    except (ValidationError, OSError) as error:
        raise UsageError(f"{path}: cannot be read ({one_line(error)[:80]}); use another --name") from error


def _with_earlier_trials(report: TuneReport, folder: Path) -> TuneReport:
    """Return the report with the trials of an earlier search; those that did not end are waiting again.

    Args:
        report: of the search that begins.
        folder: of the earlier search.

    Raises:
        UsageError: there is no such search, it cannot be read, it had another recipe, split or teachers, or
            it chose trials by their flips and this one has a limit on NFR.
    """
    earlier = read_earlier(folder)
    path = folder / TRIALS_NAME
    if report.max_nfr is not None and (earlier.sampler == "optuna" or earlier.asha):
        raise UsageError(
            f"{path}: --sampler optuna or --asha chose its trials by the flips that --max-nfr is tested on, "
            "so that no bound would hold; resume it without --max-nfr, or use another --name"
        )
    changes = _describe_changes(earlier, report)
    if changes:
        raise UsageError(
            f"{path}: this is another search: {'; '.join(changes)}; resume it as it was, or use --overwrite "
            "or --name"
        )
    trials = [
        trial if trial.status in ("done", "stopped") else trial.model_copy(update={"status": "waiting"})
        for trial in earlier.trials
    ]
    # Kept for all later searches: these trials were chosen by their flips.
    sampler = "optuna" if earlier.sampler == "optuna" else report.sampler
    return report.model_copy(
        update={"trials": trials, "sampler": sampler, "asha": report.asha or earlier.asha}
    )


def _describe_changes(earlier: TuneReport, report: TuneReport) -> list[str]:
    """Describe what two searches must have in common and do not: recipe keys, split and teachers."""
    # Every trial sets the keys that both search.
    searched = {axis.name for axis in earlier.axes} & {axis.name for axis in report.axes}
    may_differ = searched.union(list_changeable_keys())
    changes = [
        f"{key}: {was} -> {is_now}"
        for key, was, is_now in differences(earlier.recipe, report.recipe)
        if key not in may_differ
    ]
    for key in ("split_fingerprint", "teachers"):
        was, is_now = getattr(earlier, key), getattr(report, key)
        if was != is_now:
            changes.append(f"{key}: {str(was)[:40]} -> {str(is_now)[:40]}")
    return changes


class TuneDryRun(Model):
    """The object that ``tune --dry-run --json`` prints."""

    trials: int = Field(description="how many")
    names: list[str] | None = Field(description="of the trials; null where they are chosen as they go")
    cpus_per_trial: int = Field(description="CPU cores of a trial")
    gpus_per_trial: float = Field(description="GPUs of a trial; may be a fraction")
    first: DryRun = Field(description="the first trial, or one with the recipe's own settings")


def dry_run(request: TuneRequest, recipe_name: str) -> TuneDryRun:
    """Plan a search of a recipe by that name, and its first trial.

    All that the search needs is checked, but for its pictures; nothing is written.

    Raises:
        MptctlError: the search, or its first trial, could not start.
    """
    points = checked_points(request)
    refuse_unusable(request.folder, SEARCH, request.existing)
    if request.resume:
        read_earlier(request.folder)
    first = dry_run_of_run(first_run(request, points), recipe_name)
    return TuneDryRun(
        trials=request.trials if points is None else len(points),
        names=None if points is None else [name_of(point) for point in points],
        cpus_per_trial=request.cpus_per_trial,
        gpus_per_trial=request.gpus_per_trial,
        first=first,
    )
