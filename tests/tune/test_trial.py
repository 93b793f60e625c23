"""The report of a trial to the search, from the lines that it has written."""

from __future__ import annotations

from pathlib import Path

from mptctl.evaluation.statistics import rate
from mptctl.models.metrics_log import MetricsLine
from mptctl.tune.trial import TrialPlan, trial_figures
from tests.common import short_recipe


def plan(folder: Path = Path("trials")) -> TrialPlan:
    return TrialPlan(
        recipe=short_recipe(method="mpt-kl"), run_root=Path("runs"), folder=folder, old=Path("old"),
        refs=(Path("ref"),), cpus=1, on_gpu=False, reference=rate(5, 91), max_er_increase=0.005,
    )  # fmt: skip


def test_counts_are_those_of_the_line(tmp_path: Path) -> None:
    """Also where the rates beside them would say something else: they are not looked at."""
    counts = {"val_errors": 5, "val_samples": 91, "val_errors_old": 2, "val_samples_old": 46, "val_flips": 1}
    rates = {"val_error": 0.08, "val_error_old": 0.04, "val_nfr": 0.02}
    line = MetricsLine.model_validate({"event": "epoch", "epoch": 1, "step": 1, **rates, **counts})
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "metrics.jsonl").write_text(f"{line.model_dump_json()}\n")
    figures = trial_figures(plan(tmp_path), "trial", 0.0, finished=True)
    assert (figures["errors"], figures["flips"]) == (5, 1)
    assert figures["objective"] == 1 / 46  # as many errors as the reference, so within the limit
