"""A search on paper: terminal, figure and page, from tables made by hand."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from mptctl.errors import GateFailed
from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.statistics import rate
from mptctl.recipe import Recipe
from mptctl.report.documents.tune import save_tune_figure, sentences, tune_document, watch_search
from mptctl.report.figures.tune import draw_over_k
from mptctl.report.media.page import render_document, unbroken
from mptctl.tune.choice import choose
from mptctl.tune.sweep import refuse_if_none
from mptctl.tune.tune_report import Reference, Trial, TuneReport
from tests.report.golden import piped

REFERENCE = rate(2600, 5000)


def trial(distance: str, k: float, errors: int | None, flips: int = 0, **changes: object) -> Trial:
    error = None if errors is None else rate(errors, 5000)
    content = {
        "name": f"mpt-{distance}-k{k:g}",
        "settings": {"method.name": f"mpt-{distance}", "method.k": k},
        "status": "waiting" if errors is None else "done",
        "epoch": 0 if errors is None else 10,
        "val_error": error,
        "val_nfr": None if errors is None else rate(flips, 2500),
        "run": "runs/tune/trials/x",
    }
    return Trial.model_validate(content | changes)


def report(trials: list[Trial], budget: Budget = Budget(max_er_increase=0.005)) -> TuneReport:
    choice = choose(trials, REFERENCE, budget)
    return TuneReport(
        sampler="grid", axes=[], asha=False, epochs=10, max_er_increase=budget.max_er_increase, max_nfr=budget.max_nfr,
        confidence=None if budget.max_nfr is None else budget.confidence, samples=5000, samples_old=2500,
        reference=Reference(runs=["runs/ref/best.pt"], val_error=REFERENCE), recipe=Recipe(), split_fingerprint="0",
        teachers={}, trials=choice.trials, front=choice.front, choice=choice.ranked[0] if choice.ranked else None,
        best_recipe=None,
    )  # fmt: skip


@pytest.fixture
def whole() -> TuneReport:
    ks = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0)
    kl = [trial("kl", k, 2480 + int(9 * k * k), 180 - int(20 * k)) for k in ks]
    lm = [trial("lm", k, 2520 + int(12 * k * k), 210 - int(22 * k)) for k in ks]
    return report([*kl, *lm])


@pytest.fixture
def budgeted(whole: TuneReport) -> TuneReport:
    """The same trials, held against a budget: NFR of at most 5.5 %."""
    return report(whole.trials, budget=Budget(max_nfr=0.055, epochs=10))


def test_a_budget_is_said_with_the_bound_that_decides(budgeted: TuneReport) -> None:
    lines = piped(tune_document(budgeted)).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert (
        "Budget: NFR of at most 5.5 % with 95 % confidence (99.75 % for each epoch of a series of k: 2 x 10). Trials "
        "are taken from the largest k down, and the first whose bound is above the budget ends that." in text
    )
    # k = 4: 100 flips of 2,500 with KL, whose bound at 99.75 % is 5.33 %; k = 2 has 140. With LM 122, bound 6.32 %.
    assert (
        "Choice: mpt-kl-k4, NFR 4.00 % (100 / 2,500; at most 5.33 %), error 52.48 % (2,624 / 5,000)." in text
    )
    assert "Limit on the error" not in text
    rows = {line.split()[0]: line.split()[-1] for line in lines if line.startswith("mpt-kl-")}
    assert (rows["mpt-kl-k8"], rows["mpt-kl-k4"], rows["mpt-kl-k2"]) == ("front", "best", "over")


def test_a_budget_that_no_trial_keeps_names_the_least(whole: TuneReport) -> None:
    over = report(whole.trials, budget=Budget(max_nfr=0.001))
    assert "No choice: no whole trial keeps the budget." in piped(tune_document(over))
    with pytest.raises(GateFailed) as caught:
        refuse_if_none(over)
    assert str(caught.value) == (
        "--max-nfr 0.1: no trial is shown to keep it with 95 % confidence; the least NFR is 0.80 % (20 of 2,500 "
        "validation pictures of old classes), at most 1.30 %, of mpt-kl-k8; no recipe was written; raise the budget, "
        "search larger k, or hold out more pictures"
    )


def test_trials_shorter_than_the_reference_are_said_to_be_the_cause() -> None:
    content = report([trial("kl", 4, 4000, 1)])
    with pytest.raises(GateFailed, match="widen the search, or raise --max-er-increase"):
        refuse_if_none(content)
    longer = content.model_copy(update={"reference": content.reference.model_copy(update={"epochs": 30})})
    with pytest.raises(GateFailed, match=r"of 10 epochs .* reference of 30, .* --set optim\.epochs=30"):
        refuse_if_none(longer)


def test_a_log_has_one_line_a_change() -> None:
    out = io.StringIO()
    with watch_search(Console(file=out, width=80)) as on_update:
        waiting = trial("kl", 1, None)
        running = waiting.model_copy(update={"status": "running"})
        for state in (waiting, running, running, trial("kl", 1, 2500, 30, seconds=12.0)):
            on_update(report([state]))
    assert out.getvalue().splitlines() == [
        "mpt-kl-k1: running",
        "mpt-kl-k1: done, epoch 10/10, error 50.00 %, NFR 1.20 % (30 / 2,500), 12 s",
    ]


def test_the_figures_are_written(whole: TuneReport, tmp_path: Path) -> None:
    assert [p.name for p in save_tune_figure(whole, tmp_path)] == ["tune.png", "tune.html"]
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "tune.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert not re.search(r'(src|href)="(?!#)', page)
    for one in whole.trials:
        assert f"<td>{one.name}</td>" in page
    for sentence in sentences(whole)[:2]:
        assert unbroken(sentence.split(",")[0]) in page


def test_an_nfr_of_zero_is_a_point_and_an_nfr_without_samples_is_none() -> None:
    trials = [trial("kl", 0, 2490), trial("kl", 1, 2500, 30), trial("kl", 2, 2510, val_nfr=rate(0, 0))]
    nfr_curve = draw_over_k(report(trials)).axes[0].lines[0]
    assert list(nfr_curve.get_ydata()) == pytest.approx([0, 1.2, math.nan], nan_ok=True)  # type: ignore[arg-type]


def test_the_page_and_figures_of_a_budget_hold_its_limit(budgeted: TuneReport, tmp_path: Path) -> None:
    page = render_document(tune_document(budgeted))
    assert "not shown to keep the budget" in page
    assert save_tune_figure(budgeted, tmp_path) == [tmp_path / "tune.png", tmp_path / "tune.html"]
