"""The whole story on the embedded characters: old model, plain update, careful update, and what each breaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.evaluation.compare import compare
from mptctl.evaluation.predict import pictures_of
from mptctl.evaluation.sources import answers_of
from mptctl.evaluation.summary import FlipReport
from mptctl.recipe import load_recipe
from mptctl.report.html import render_html
from mptctl.storage import write_atomically
from mptctl.training.job import Job, train
from mptctl.training.run import Observer

# The runs, in the order in which they need each other: name, method, teachers, offset of the seed.
RUNS = (
    ("old", "no-treatment", (), 2000),
    ("ref", "no-treatment", (), 1000),
    ("no-treatment", "no-treatment", ("old",), 0),
    ("mpt-kl", "mpt-kl", ("old", "ref"), 0),
)


class QuickstartRow(BaseModel):
    """One model, measured against the old one on test characters of the old classes."""

    model_config = ConfigDict(frozen=True)

    model: str = Field(description="name of its run")
    negative_flips: int = Field(description="characters that the old model got right and this one gets wrong")
    n_old: int = Field(description="test characters of the old classes")
    nfr: float = Field(description="negative flips / n_old")
    rel_nfr: float | None = Field(
        description="NFR by what independent errors would give; null where undefined"
    )
    er_old_classes: float = Field(description="error on the old classes")
    er_all: float = Field(description="error on all classes")


class QuickstartResult(BaseModel):
    """What the quickstart found, and where it is."""

    model_config = ConfigDict(frozen=True)

    rows: list[QuickstartRow] = Field(description="one for each model")
    meaning: str = Field(description="what the table says, in one sentence")
    runs: list[str] = Field(description="the run folders")
    report: str = Field(description="the HTML page of the careful update")
    seconds: float = Field(description="from start to end")


def quickstart(
    run_root: Path,
    *,
    seed: int = 0,
    overwrite: bool = False,
    observer: Callable[[], Observer],
) -> QuickstartResult:
    """Split the characters, train four models, and measure the two updates.

    Args:
        run_root: where everything is written.
        seed: of the split and, with fixed offsets, of all runs.
        overwrite: throw away what an earlier quickstart left there.
        observer: makes one for each run.

    Raises:
        UsageError: the folder holds runs or another split, and ``overwrite`` is not given.
    """
    started = time.monotonic()
    held = [name for name, *_ in RUNS if (run_root / name).exists()]
    if held and not overwrite:
        raise UsageError(
            f"{run_root}: already holds {', '.join(held)}; start anew with --overwrite, or use another --run-root"
        )
    split = make_split("characters", run_root=run_root, seed=seed, overwrite=overwrite)
    for name, method, teachers, offset in RUNS:
        recipe = load_recipe("characters", (), {"method.name": method, "runtime.seed": seed + offset})
        paths = [run_root / teacher / "best.pt" for teacher in teachers]
        job = Job(
            recipe=recipe,
            split=split,
            folder=run_root / name,
            old=paths[0] if paths else None,
            refs=tuple(paths[1:]),
            only_old_classes=name == "old",
            overwrite=overwrite,
        )
        train(job, observer())
    reports = {name: _compare(run_root, name) for name, *_ in RUNS}
    page = run_root / "flips.html"
    write_atomically(page, render_html(reports["mpt-kl"], pictures_of(split)).encode())
    rows = {name: _row(name, report) for name, report in reports.items()}
    return QuickstartResult(
        rows=list(rows.values()),
        meaning=_meaning(rows["no-treatment"], rows["mpt-kl"], split),
        runs=[str(run_root / name) for name, *_ in RUNS],
        report=str(page),
        seconds=round(time.monotonic() - started, 1),
    )


def _compare(run_root: Path, name: str) -> FlipReport:
    models = answers_of(["old", name], run_root).models
    return compare(models[0], models[1])


def _row(name: str, report: FlipReport) -> QuickstartRow:
    return QuickstartRow(
        model=name,
        negative_flips=report.counts.negative_flips,
        n_old=report.n_old,
        nfr=report.nfr,
        rel_nfr=report.rel_nfr,
        er_old_classes=report.new.er_old_classes,
        er_all=report.new.er_all,
    )


def _meaning(plain: QuickstartRow, careful: QuickstartRow, split: Split) -> str:
    return (
        f"Of {plain.n_old} test characters of the {split.classes.num_old} old classes, the plain update breaks "
        f"{plain.negative_flips} that the old model got right and margin preserving training breaks "
        f"{careful.negative_flips}, at an error over all classes of {100 * plain.er_all:.1f} % and "
        f"{100 * careful.er_all:.1f} %."
    )
