"""The Pareto figure of `adjust`: what is drawn in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.evaluation.bias.choice import Budget, choose_bias
from mptctl.release.adjust_report import AdjustFigures, AdjustReport, Chosen
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.figures.adjust import draw_adjustment
from mptctl.report.media.svg import save_figure
from tests.evaluation.made_up import made_up

SAMPLES = made_up(1000, 0, uneven=1.0)


def figures(bias: float) -> AdjustFigures:
    errors, flips = SAMPLES.counts(bias)
    n, n_old = len(SAMPLES), SAMPLES.n_old
    return AdjustFigures(
        nfr=flips / n_old, bound=flips / n_old + 0.02, er_all=errors / n, flips=flips, samples_old=n_old,
        errors=errors, samples=n, nll=None,
    )  # fmt: skip


@pytest.mark.parametrize("budget", [Budget(max_nfr=0.2), Budget(max_er_increase=0.01)])
def test_curves_choice_and_limit(budget: Budget, tmp_path: Path) -> None:
    choice = choose_bias(SAMPLES, budget)
    report = AdjustReport(
        chosen=Chosen(kind="bias", bias=1.0, biases={"a": 1.0}, temperature=1.0),
        validation=figures(choice.bias), before=figures(0.0), max_nfr=budget.max_nfr,
        max_er_increase=budget.max_er_increase, confidence=0.95, epochs=10, run="runs/new",
        best="runs/new/best.pt", warnings=[],
    )  # fmt: skip
    figure = draw_adjustment(report, choice)
    drawn = {str(line.get_label()): line for line in figure.axes[0].lines}
    assert {"one shift", "limit"} <= set(drawn)
    x, y = (np.asarray(values) for values in drawn["one shift"].get_data())
    errors, flips = SAMPLES.counts(0.0)
    assert (x[0], y[0]) == (100 * errors / len(SAMPLES), 100 * flips / SAMPLES.n_old)
    assert (np.diff(y) <= 0).all()
    assert ("up to its upper bound" in drawn) == (budget.max_nfr is not None)
    for name in ("front.svg", "again.svg", "front.PNG"):
        save_figure(draw_adjustment(report, choice), tmp_path / name)
    assert (tmp_path / "front.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "front.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "front.PNG").read_bytes().startswith(b"\x89PNG")
    said = describe_adjustment(report)
    assert any("validation pictures of old classes" in line for line in said)
    promise = (
        "promise    the choice of best.pt among 10 epochs counted; for this update alone: to choose among N, "
        "adjust each with --confidence 1 - 0.05 / N (0.984 for 3)"
    )
    assert (promise in said) == (budget.max_nfr is not None)
