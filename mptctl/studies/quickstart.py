"""The whole story on the embedded characters: old model, plain update, careful update, and what each breaks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.predictions import Predictions
from mptctl.files import Model
from mptctl.inference.named_models import load_predictions
from mptctl.models.ownership import run_folder
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe
from mptctl.training.observer import Observer
from mptctl.training.request import OLD_SEED_OFFSET, REF_SEED_OFFSET, RunRequest
from mptctl.training.train import train

# The runs, in the order in which they need each other: name, method, teachers, offset of the seed.
RUNS = (
    ("old", "no-treatment", (), OLD_SEED_OFFSET),
    ("ref", "no-treatment", (), REF_SEED_OFFSET),
    ("no-treatment", "no-treatment", ("old",), 0),
    ("mpt-kl", "mpt-kl", ("old", "ref"), 0),
)
# The page that shows what the careful update breaks, below the run root.
PAGE_NAME = "flips.html"
# What somebody who has seen it will want to type.
NEXT_COMMAND = "mptctl split imagefolder --data-root DIR --run-root mine"
# Pictures that the last screen shows.
EXAMPLES = 6


class QuickstartRow(Model):
    """One model, measured against the old one on test characters of the old classes."""

    model: str = Field(description="name of its run")
    negative_flips: int = Field(description="characters that the old model got right and this one gets wrong")
    n_old: int = Field(description="test characters of the old classes")
    nfr: float = Field(description="negative flips / n_old")
    nfr_ci95: tuple[float, float] = Field(description="its 95 % interval")
    rel_nfr: float | None = Field(
        description="NFR by what independent errors would give; null where undefined"
    )
    er_old_classes: float = Field(description="error on the old classes")
    er_all: float = Field(description="error on all classes")


class QuickstartExample(Model):
    """A test character that the old model got right and the plain update gets wrong."""

    id: str = Field(description="the sample")
    label: str = Field(description="the true class, which was the old model's answer")
    plain_answer: str = Field(description="the plain update's answer")
    careful_answer: str = Field(description="the careful update's answer")


class QuickstartResult(Model):
    """What the quickstart found, and where it is."""

    rows: list[QuickstartRow] = Field(description="one for each model")
    meaning: str = Field(description="what the table says, in one sentence")
    examples: list[QuickstartExample] = Field(description="some of what the plain update breaks")
    runs: list[str] = Field(description="the run folders")
    report: str = Field(description="the HTML page of the careful update")
    next_command: str = Field(description="what to type for data of one's own")
    seconds: float = Field(description="from start to end")


class Quickstart(NamedTuple):
    """What the quickstart did.

    Attributes:
        result: what it found; its page is still to be written.
        flips: the report of the careful update, for that page.
        split: of the characters.
    """

    result: QuickstartResult
    flips: FlipReport
    split: Split


def quickstart(
    run_root: Path,
    *,
    seed: int = 0,
    overwrite: bool = False,
    observer: Callable[[], Observer],
) -> Quickstart:
    """Split the characters, train four models, and measure the two updates.

    Args:
        run_root: where everything is written.
        seed: of the split and, with fixed offsets, of all runs.
        overwrite: throw away what an earlier quickstart left there; what no run wrote stays.
        observer: makes one for each run.

    Raises:
        UsageError: the folder holds runs or another split, and ``overwrite`` is not given; or something is where
            they would be that is not ours.
    """
    started = time.monotonic()
    folders = {name: run_folder(run_root, name) for name, *_ in RUNS}
    held = [path.name for path in folders.values() if os.path.lexists(path)]
    if held and not overwrite:
        raise UsageError(
            f"{run_root}: already holds {', '.join(held)}; start anew with --overwrite, or use another --run-root"
        )
    for folder in folders.values():
        RunDir(folder).refuse_unusable("replace" if overwrite else "refuse")
    split = make_split("characters", run_root=run_root, seed=seed, overwrite=overwrite)
    for name, method, teachers, offset in RUNS:
        recipe = load_recipe("characters", (), {"method.name": method, "runtime.seed": seed + offset})
        paths = [RunDir(folders[teacher]).best for teacher in teachers]
        job = RunRequest(
            recipe=recipe,
            split=split,
            folder=folders[name],
            old=paths[0] if paths else None,
            refs=tuple(paths[1:]),
            only_old_classes=name == "old",
            overwrite=overwrite,
        )
        train(job, observer())
    models = load_predictions({name: name for name in folders}, run_root, part="test").models
    reports = {name: compare(models["old"], model) for name, model in models.items()}
    rows = {name: _row(name, report) for name, report in reports.items()}
    result = QuickstartResult(
        rows=list(rows.values()),
        meaning=_meaning(rows["no-treatment"], rows["mpt-kl"], split),
        examples=_examples(reports["no-treatment"], models["mpt-kl"]),
        runs=[str(run_root / name) for name, *_ in RUNS],
        report=str(run_root / PAGE_NAME),
        next_command=NEXT_COMMAND,
        seconds=round(time.monotonic() - started, 1),
    )
    return Quickstart(result, reports["mpt-kl"], split)


def _row(name: str, report: FlipReport) -> QuickstartRow:
    return QuickstartRow(
        model=name,
        negative_flips=report.counts.negative_flips,
        n_old=report.n_old,
        nfr=report.nfr,
        nfr_ci95=report.nfr_ci95,
        rel_nfr=report.rel_nfr,
        er_old_classes=report.new.er_old_classes,
        er_all=report.new.er_all,
    )


def _examples(plain: FlipReport, careful: Predictions) -> list[QuickstartExample]:
    """The surest of the plain update's flips, no two of them alike in label and answer."""
    answers = dict(zip(careful.ids.tolist(), careful.preds.tolist(), strict=True))
    unlike = {(flip.label, flip.answer): flip for flip in reversed(plain.worst_flips)}
    surest = sorted(unlike.values(), key=plain.worst_flips.index)[:EXAMPLES]
    return [
        QuickstartExample(
            id=flip.id, label=flip.label, plain_answer=flip.answer, careful_answer=answers[flip.id]
        )
        for flip in surest
    ]


def _meaning(plain: QuickstartRow, careful: QuickstartRow, split: Split) -> str:
    return (
        f"Of {plain.n_old} test characters of the {split.classes.num_old} old classes, the plain update breaks "
        f"{plain.negative_flips} that the old model got right and margin preserving training breaks "
        f"{careful.negative_flips}, at an error over all classes of {100 * plain.er_all:.1f} % and "
        f"{100 * careful.er_all:.1f} %."
    )
