"""Resuming a search: its use of the trials of an earlier one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.recipe.search import Axis
from mptctl.tune.check import checked_points
from mptctl.tune.prepare import measure_baseline
from mptctl.tune.request import TuneRequest
from mptctl.tune.tune_report import TRIALS_NAME, TuneReport, write_report
from tests.common import digits_with_teachers, short_recipe


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of the digits with teachers beside it."""
    return digits_with_teachers(tmp_path_factory.mktemp("prepare"), val_fraction=0.3, epochs=1)


def begin(request: TuneRequest) -> TuneReport:
    """Begin a search, and write its report as it is before the first trial."""
    points = request.points() or [{"method.name": "mpt-kl", "method.k": 1.0}]
    report = measure_baseline(request, points, lambda note: None, lambda what, done, total: None)
    write_report(request.folder, report)
    return report


@pytest.mark.parametrize(
    ("method", "axis", "message"),
    [
        (
            "mpt-kl",
            Axis(name="optim.batch_size", values=(64, 100_000)),
            "optim.batch_size 100000: more than the",
        ),
        ("elodi", Axis(name="method.elodi_start_epoch", values=(1, 20)), "elodi begins to distil"),
    ],
)
def test_a_trial_that_cannot_be_trained_is_refused_before_the_first(
    method: str, axis: Axis, message: str, split: Split, tmp_path: Path
) -> None:
    old, ref = (split.run_root / name / "best.pt" for name in ("old", "ref"))
    request = TuneRequest(short_recipe(method=method), split, tmp_path, old, (ref,), (axis,))
    with pytest.raises(UsageError, match=message):
        checked_points(request)


@pytest.mark.parametrize(("sampler", "asha"), [("optuna", False), ("grid", True)])
def test_a_budget_takes_no_trials_that_were_chosen_by_their_flips(
    sampler: str, asha: bool, split: Split, tmp_path: Path
) -> None:
    old, ref = (split.run_root / name / "best.pt" for name in ("old", "ref"))
    grid = TuneRequest(
        short_recipe(method="mpt-kl"),
        split,
        tmp_path,
        old,
        (ref,),
        (Axis(name="method.k", values=(1.0, 4.0)),),
    )
    begin(replace(grid, sampler=sampler, asha=asha))
    with_budget = replace(grid, budget=Budget(max_nfr=0.5), resume=True)
    # A grid in between adds trials; those of the first search stay.
    for between in (False, True):
        if between:
            begin(replace(grid, resume=True))
        written = (tmp_path / TRIALS_NAME).read_bytes()
        with pytest.raises(UsageError, match="--sampler optuna or --asha chose its trials by the flips"):
            begin(with_budget)
        assert (tmp_path / TRIALS_NAME).read_bytes() == written
    begin(replace(with_budget, resume=False))
    begin(with_budget)
