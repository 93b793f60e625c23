"""Before the first trial: check what can be checked, measure the reference, take up an earlier search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError

from mptctl.data.loading.base import Loader
from mptctl.errors import UsageError
from mptctl.evaluation.statistics import rate
from mptctl.machine.device import choose_device
from mptctl.machine.signals import StopRequest
from mptctl.names import Role
from mptctl.recipe import differences
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import TeacherSource
from mptctl.training.distributed import ProcessGroup
from mptctl.training.job import RunRequest, assemble
from mptctl.training.resume import MAY_CHANGE
from mptctl.training.validate import Validator
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import TrialSettings, complete_settings, recipe_of
from mptctl.tune.tune_report import Reference, TuneReport


@dataclass(frozen=True)
class Prepared:
    """What the trials are measured against.

    Attributes:
        report: the search before its first trial, with those of an earlier one.
        loader: of the validation part.
        judge: the old model, or what it said before.
        device: where they are.
    """

    report: TuneReport
    loader: Loader
    judge: TeacherSource
    device: torch.device


def prepare(
    request: TuneRequest,
    points: list[TrialSettings] | None,
    say: Callable[[str], None],
    decoding: Callable[[int, int], None],
) -> Prepared:
    """Put the first trial together without training it, and measure the reference on the validation part.

    Args:
        request: what was asked for.
        points: settings of all trials, where they are known.
        say: called with what was chosen and why.

    Raises:
        UsageError: nothing to resume, or another search.
        MptctlError: what keeps a run from starting.
    """
    split, base = request.split, request.recipe
    device = choose_device(base.runtime.device)
    settings = points[0] if points else complete_settings(base, {})
    first = recipe_of(base, settings)
    job = RunRequest(first, split, request.folder / "trials", request.old, request.refs)
    run = assemble(job, device, ProcessGroup(), StopRequest(), decoding)
    run.train.close()
    assert run.validator is not None
    loader = run.validator.loader
    for note in run.notes:
        say(note)
    num_old = split.classes.num_old
    teachers = Teachers(request.old, request.refs, split.classes, base.data, base.runtime, device)
    found = Validator(loader, num_old, None, (device.type, False)).run(teachers.models[Role.REF])
    rows = split.indices("val")
    assert found.error is not None
    report = TuneReport(
        search=request.search,
        axes=list(request.axes),
        asha=request.asha,
        epochs=-(-run.total_steps // run.train.steps_per_epoch),
        max_er_increase=request.max_er_increase,
        reference=Reference(
            runs=[str(path) for path in request.refs],
            val_error=rate(round(found.error * len(rows)), len(rows)),
        ),
        samples=len(rows),
        samples_old=int((split.labels[rows] < num_old).sum()),
        recipe=base,
        split_fingerprint=split.fingerprint,
        teachers=teachers.digests,
        trials=[],
    )
    if request.resume:
        report = _taken_up(report, request.folder / "trials.json")
    assert run.validator.teachers is not None, "a search has an old model"
    run.validator.teachers.open()
    return Prepared(report, loader, run.validator.teachers, device)


def _taken_up(report: TuneReport, path: Path) -> TuneReport:
    """The report with the trials of an earlier search.

    Raises:
        UsageError: there is none, or it was another one.
    """
    try:
        before = TuneReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path.parent}: nothing to resume; start without --resume") from None
    except (ValidationError, OSError) as error:
        raise UsageError(
            f"{path}: cannot be read ({' '.join(str(error).split())[:80]}); use another --name"
        ) from error
    # Every trial says for itself what these two are.
    free = (*MAY_CHANGE, "method.name", "method.k")
    lines = [x for x in differences(before.recipe, report.recipe) if x.partition(":")[0] not in free]
    lines += [
        f"{key}: {str(getattr(before, key))[:40]} -> {str(getattr(report, key))[:40]}"
        for key in ("split_fingerprint", "teachers")
        if getattr(before, key) != getattr(report, key)
    ]
    if lines:
        raise UsageError(
            f"{path}: this is another search: {'; '.join(lines)}; resume it as it was, or use --overwrite or --name"
        )
    bound = report.reference.val_error.count + report.max_er_increase * report.samples + 1e-9
    kept = [
        trial.model_copy(
            update={
                "within_bound": trial.val_error.count <= bound if trial.val_error else None,
                "status": trial.status if trial.status in ("done", "stopped") else "waiting",
            }
        )
        for trial in before.trials
    ]
    return report.model_copy(update={"trials": kept})
