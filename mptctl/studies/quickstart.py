"""The quickstart: train old model, reference, plain and MPT update on embedded characters; count flips."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.statistics import SIGNIFICANT, mcnemar
from mptctl.files import Model
from mptctl.inference.named_models import NamedModels, load_predictions
from mptctl.models.ownership import run_folder
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.studies.study import StudyRequest, refuse_if_failed, run_study
from mptctl.studies.study_file import OLD, load_study
from mptctl.studies.study_plan import plan_study
from mptctl.studies.study_report import Board

# The study whose runs, of one seed, the quickstart trains.
STUDY = "demo"
# The page on the flips of the MPT update, below the run root.
PAGE_NAME = "flips.html"
# The command to suggest at the end.
NEXT_COMMAND = "mptctl split imagefolder --data-root DIR --run-root mine"


class QuickstartRow(Model):
    """A model, measured against the old one on test characters of the old classes."""

    model: str = Field(description="name of its run")
    negative_flips: int = Field(description="samples that the old model got right and this one gets wrong")
    n_old: int = Field(description="test samples of the old classes")
    nfr: float = Field(description="negative flips / n_old")
    nfr_ci95: tuple[float, float] = Field(description="its 95 % interval")
    rel_nfr: float | None = Field(description="NFR / NFR of independent errors; null where undefined")
    er_old_classes: float = Field(description="error on the old classes")
    er_all: float | None = Field(
        description="error on all classes; null for the old model, which does not know them all"
    )


class QuickstartResult(Model):
    """The findings of the quickstart, and where they are."""

    rows: list[QuickstartRow] = Field(description="one for each model")
    meaning: str = Field(description="what the table says, in one sentence")
    runs: list[str] = Field(description="the run folders")
    report: str = Field(description="the HTML page of the MPT update")
    next_command: str = Field(description="next command, for your own data")
    seconds: float = Field(description="from start to end")


class Quickstart(NamedTuple):
    """The findings of the quickstart, with all that its page shows.

    Attributes:
        result: the findings; the page that they name is still to be written.
        flips: the report of the MPT update with all of its flips, for that page.
        split: of the characters.
        found: the models, by the names of their runs.
    """

    result: QuickstartResult
    flips: FlipReport
    split: Split
    found: NamedModels


def quickstart(
    run_root: Path,
    *,
    seed: int = 0,
    overwrite: bool = False,
    on_update: Callable[[Board], None],
    log: Callable[[str], None],
) -> Quickstart:
    """Split the characters, train the models of `STUDY`, as many at once as there are cores; measure them.

    Args:
        run_root: where split and runs are written.
        seed: of the split and, with fixed offsets, of all runs.
        overwrite: throw away the runs that an earlier quickstart left there; files that no run wrote stay.
        on_update: called with the board of the runs now and then, and whenever one begins or ends.
        log: called with lines of progress.

    Raises:
        UsageError: a run folder or another split exists, and ``overwrite`` is not given; or a path that a run
            needs holds something that no run wrote, or is written by another process.
        MptctlError: a run failed.
    """
    started = time.monotonic()
    study = replace(load_study(STUDY), flat=True)
    names = [run.name for run in plan_study(study, (seed,))]
    runs = [RunDir(run_folder(run_root, name)) for name in names]
    split = _make_split(run_root, runs, seed, overwrite=overwrite)
    request = StudyRequest(study=study, seeds=(seed,), run_root=run_root)
    report = run_study(request, on_update, log)
    refuse_if_failed(report.study, report.runs)
    found = load_predictions({name: name for name in names}, Session(run_root), part="test")
    models = found.models
    all_flips = ComparisonRequest(listed_flips=len(models[OLD]))
    reports = {name: compare(models[OLD], model, all_flips) for name, model in models.items()}
    rows = {name: _build_row(name, report) for name, report in reports.items()}
    result = QuickstartResult(
        rows=list(rows.values()),
        meaning=_summarise_in_words(rows["no-treatment"], rows["mpt-kl"], split, models),
        runs=[str(run.path) for run in runs],
        report=str(run_root / PAGE_NAME),
        next_command=NEXT_COMMAND,
        seconds=round(time.monotonic() - started, 1),
    )
    return Quickstart(result, reports["mpt-kl"], split, found)


def _make_split(run_root: Path, runs: Sequence[RunDir], seed: int, *, overwrite: bool) -> Split:
    """Split the characters, and throw away the runs of an earlier quickstart; errors as `quickstart`."""
    existing = [run for run in runs if os.path.lexists(run.path)]
    if existing and not overwrite:
        raise UsageError(
            f"{run_root}: already holds {', '.join(run.path.name for run in existing)}; start anew with "
            "--overwrite, or use another --run-root"
        )
    # A folder to be replaced may be in use, or be no run; and a file may stand where a folder is needed.
    for run in runs:
        run.refuse_unusable("replace" if overwrite else "refuse")
    split = make_split("characters", run_root=run_root, seed=seed, overwrite=overwrite)
    for run in existing:
        with run.locked("replace"):
            run.remove_run_files()
    return split


def _build_row(name: str, report: FlipReport) -> QuickstartRow:
    """The row of a model, from its comparison with the old one."""
    return QuickstartRow(
        model=name,
        negative_flips=report.counts.negative_flips,
        **report.model_dump(include={"n_old", "nfr", "nfr_ci95", "rel_nfr"}),
        er_old_classes=report.new.er_old_classes,
        er_all=None if name == OLD else report.new.er_all,
    )


def _summarise_in_words(
    plain: QuickstartRow, mpt: QuickstartRow, split: Split, models: Mapping[str, Predictions]
) -> str:
    """The table in one sentence: flips and errors of both updates, and whether they differ beyond noise."""

    def error_percent(row: QuickstartRow) -> str:
        return "n/a" if row.er_all is None else f"{100 * row.er_all:.2f} %"

    wrong = {name: models[name].preds != models[name].labels for name in (plain.model, mpt.model)}
    was_right = models[OLD].preds == models[OLD].labels
    flips = {name: wrong[name] & was_right for name in wrong}
    flips_differ_by = difference_in_words(flips[plain.model], flips[mpt.model])
    errors_differ_by = difference_in_words(wrong[plain.model], wrong[mpt.model])
    return (
        f"Of {plain.n_old:,} test samples of the {split.classes.num_old} old classes, the plain update "
        f"breaks {plain.negative_flips:,} that the old model got right and margin preserving training breaks "
        f"{mpt.negative_flips:,} ({flips_differ_by} apart), at an error over all classes of "
        f"{error_percent(plain)} and {error_percent(mpt)} ({errors_differ_by} apart)."
    )


def difference_in_words(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> str:
    """Say whether two models' errors differ by more than sampling noise, by the exact McNemar test.

    Args:
        one, other: (N,) whether each model is wrong on each of the same samples.
    """
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    p = mcnemar(Counts(both_right=0, negative_flips=only_one, positive_flips=only_other, both_wrong=0))
    return "more than sampling noise" if p < SIGNIFICANT else "no more than sampling noise"
