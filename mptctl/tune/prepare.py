"""The start of a search: checks, the reference's error, and an earlier search to go on with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.errors import UsageError, one_line
from mptctl.evaluation.statistics import rate
from mptctl.machine.device import choose_device
from mptctl.names import Progress, Role
from mptctl.recipe import differences, list_changeable_keys
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import TeacherSource
from mptctl.training.assemble import build_loaders, build_student, build_teachers, cache_logits
from mptctl.training.distributed import ProcessGroup
from mptctl.training.plan import RunPlan, plan_run
from mptctl.training.request import RunRequest
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import TrialSettings, complete_settings, name_of, recipe_of
from mptctl.tune.tune_report import TRIALS_NAME, Reference, TuneReport


@dataclass(frozen=True)
class Baseline:
    """The reference of a search, and where its trials are validated.

    Attributes:
        report: the search before its first trial, with those of an earlier one.
        val: loader of the validation part.
        old: the old model, or what it said before.
        device: where they are.
    """

    report: TuneReport
    val: Loader
    old: TeacherSource
    device: torch.device


@contextmanager
def measure_baseline(
    request: TuneRequest,
    points: list[TrialSettings] | None,
    log: Callable[[str], None],
    progress: Progress,
) -> Iterator[Baseline]:
    """Checks the first trial's needs, decodes all pictures, and measures the reference in validation.

    Args:
        request: what was asked for.
        points: settings of all trials, where they are known.
        log: called with what was chosen and why.
        progress: told how many pictures are decoded.

    Yields:
        The baseline; its loader is closed at the end.

    Raises:
        UsageError: nothing to resume, or another search.
        MptctlError: what keeps a run from starting.
    """
    device, group = choose_device(request.recipe.runtime.device), ProcessGroup()
    first = first_run(request, points)
    plan = plan_run(first, device)
    teachers = build_teachers(first, plan, device)
    build_student(first, plan, device, group)  # says at once what is wrong with the model
    with ExitStack() as stack:
        train, val = build_loaders(first, plan, progress)
        stack.callback(train.close)
        assert val is not None, "a search has a validation part"
        stack.callback(val.close)
        kept = cache_logits(first, plan, teachers, train, val)
        train.close()  # what it has decoded stays on the disk for the trials
        for note in (train.reason, *kept.notes):
            log(note)
        assert teachers.computed is not None, "a search has teachers"
        assert kept.validation is not None, "a search has an old model"
        metas = [teachers.computed.metas[path] for path in request.refs]
        epochs = min((meta.recipe.optim.epochs for meta in metas if meta.origin == "trained"), default=None)
        reference = Reference(
            runs=[str(path) for path in request.refs],
            val_error=rate(_reference_errors(teachers.computed, val), plan.val_samples[0]),
            epochs=epochs,
        )
        report = _begin(request, plan, teachers.digests, reference)
        if request.resume:
            report = _resumed(report, request.folder / TRIALS_NAME)
        kept.validation.open()
        yield Baseline(report, val, kept.validation, device)


def first_run(request: TuneRequest, points: list[TrialSettings] | None) -> RunRequest:
    """The first trial as a run, or one with the recipe's own settings."""
    settings = points[0] if points else complete_settings(request.recipe, {})
    folder = request.folder / "trials" / name_of(settings)
    return RunRequest(recipe_of(request.recipe, settings), request.split, folder, request.old, request.refs)


def _begin(request: TuneRequest, plan: RunPlan, teachers: dict[str, str], reference: Reference) -> TuneReport:
    """The search before its first trial."""
    samples, samples_old = plan.val_samples
    return TuneReport(
        search=request.search,
        axes=list(request.axes),
        asha=request.asha,
        epochs=math.ceil(plan.total_steps / plan.train.steps_per_epoch),
        max_er_increase=request.budget.max_er_increase,
        max_nfr=request.budget.max_nfr,
        confidence=None if request.budget.max_nfr is None else request.budget.confidence,
        reference=reference,
        samples=samples,
        samples_old=samples_old,
        recipe=request.recipe,
        split_fingerprint=request.split.fingerprint,
        teachers=teachers,
        trials=[],
    )


@torch.no_grad()
def _reference_errors(teachers: Teachers, val: Loader) -> int:
    """Validation samples that the reference gets wrong."""
    errors = 0
    for batch in val.epoch(0):
        ref = teachers.logits(batch, {Role.REF})[Role.REF]
        errors += int((~is_top1_correct(ref, batch.labels)).sum())
    return errors


def _resumed(report: TuneReport, path: Path) -> TuneReport:
    """The report with the trials of an earlier search.

    Raises:
        UsageError: there is none, or it was another one.
    """
    try:
        before = TuneReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path.parent}: nothing to resume; start without --resume") from None
    except (ValidationError, OSError) as error:
        raise UsageError(f"{path}: cannot be read ({one_line(error)[:80]}); use another --name") from error
    # Every trial says for itself what these two are.
    free = {*list_changeable_keys(), "method.name", "method.k"}
    lines = [
        f"{key}: {was} -> {is_now}"
        for key, was, is_now in differences(before.recipe, report.recipe)
        if key not in free
    ]
    lines += [
        f"{key}: {str(getattr(before, key))[:40]} -> {str(getattr(report, key))[:40]}"
        for key in ("split_fingerprint", "teachers")
        if getattr(before, key) != getattr(report, key)
    ]
    if lines:
        raise UsageError(
            f"{path}: this is another search: {'; '.join(lines)}; resume it as it was, or use --overwrite or "
            "--name"
        )
    kept = [
        trial if trial.status in ("done", "stopped") else trial.model_copy(update={"status": "waiting"})
        for trial in before.trials
    ]
    return report.model_copy(update={"trials": kept})
