"""Every result in every medium, byte for byte as it is kept: pipe and colour at 80 columns, files, pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from rich.console import Console

from mptctl.data.split_summary import PartCounts, SplitSummary
from mptctl.evaluation.calibration.report import CalibrationReport, measure_calibration
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.release.adjust_report import AdjustFigures, AdjustReport, Chosen
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.documents.ci import render_github, render_junit
from mptctl.report.documents.comparison_files import render_csv
from mptctl.report.documents.flips import print_report
from mptctl.report.documents.flips_markdown import render_markdown as render_flips_markdown
from mptctl.report.documents.flips_page import render_html
from mptctl.report.documents.split import split_document
from mptctl.report.documents.updates import updates_document
from mptctl.report.media.terminal import print_document
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import Comparison
from mptctl.studies.study_report import StudyReport, StudyRow
from mptctl.tune.tune_report import Comparison as Second
from mptctl.tune.tune_report import TuneReport
from tests.report import shown
from tests.report.examples import example, with_everything
from tests.report.golden import check_golden, coloured, piped, readable_page
from tests.report.rendered import (
    calibration_page,
    comparison_latex,
    comparison_markdown,
    comparison_page,
    print_calibration,
    print_comparison,
    print_study,
    print_tune,
    study_page,
    tune_page,
)
from tests.report.test_tune_report import report as search
from tests.report.test_tune_report import trial
from tests.report.test_verdict_line import counted
from tests.studies.made_runs import made_seed

# Names that mean something to Markdown, LaTeX, HTML and a terminal.
ODD = "a_b 50% & <i>x</i> [red]#1[/red] $k$ {y} ~^|"
METHODS = {"no-treatment": 4.0, "mpt-kl": 2.0, "pct-kl": 2.0}

Show = Callable[[Console], None]


def _root(seeds: int = 2) -> Path:
    root = Path(mkdtemp())
    for seed in range(1, seeds + 1):
        made_seed(root / str(seed), seed, METHODS)
    return root


def _odd(found: Comparison) -> Comparison:
    rows = [row.model_copy(update={"name": ODD}) if row.name == "pct-kl" else row for row in found.rows]
    return found.model_copy(update={"rows": rows, "notes": ["one run was left out"]})


@cache
def comparison(how: str) -> Comparison:
    """Three methods of two seeds: plain, at one error, old models alone; of three held against one of them."""
    root = _root(seeds=3 if how == "against" else 2)
    if how == "equal-error":
        return _odd(compare_runs([root], equal_error="mpt-kl"))
    if how == "against":
        return _odd(compare_runs([root], against="no-treatment"))
    if how == "old-models":
        return compare_runs([root / "1" / "old", root / "2" / "old"])
    return _odd(compare_runs([root]))


def study() -> StudyReport:
    runs = [
        StudyRow(seed=1, run="mpt-kl", method="mpt-kl", status="done", steps=1024),
        StudyRow(seed=1, run="x", method="mpt-lm", status="failed", steps=3, error="<i>no room</i> [red]"),
    ]
    return StudyReport(
        study="demo", run_root="runs/demo", seeds=[1], runs=runs, seconds=200,
        comparison=comparison("plain"),
    )  # fmt: skip


@cache
def flips(what: str) -> FlipReport:
    """A failed gate with all that a report can show, an undecided one, one without logits, a long one."""
    if what == "undecided":
        return counted(2, 8, 10, Limits(max_nfr=0.01, max_lost=0.004, confidence=0.9))
    if what == "answers":
        return example("[red]ant_x[/red]", with_logits=False)
    if what == "long":
        return example(many=60)
    return with_everything("ant_[b]|<x>").model_copy(update={"warnings": ["the files have no split"]})


def updates() -> dict[str, FlipReport]:
    return {
        "mpt_[b]": counted(2, 8, 10, Limits(max_nfr=0.01, confidence=0.9)),
        "plain": counted(20, 8, 10, Limits(max_nfr=0.01)),
    }


@cache
def calibrated(scaled: bool) -> CalibrationReport:
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    made = [
        build_predictions(
            "m_[b]", np.arange(first, first + 90), labels, logits=rng.normal(size=(90, 3)), classes=tuple("abc")
        )
        for first in (0, 90)
    ]  # fmt: skip
    return measure_calibration(made[0], made[1] if scaled else None, ["its run did not end"])


@cache
def searched(budget: bool = False) -> TuneReport:
    second = Second(name="lm-k2", only_choice_flips=11, only_second_flips=27, p_value=0.0139, differs=True)
    trials = [trial("kl", k, 2480 + int(9 * k * k), 180 - int(20 * k)) for k in (0.0, 1.5, 4.0, 8.0)]
    failed = trial("lm", 3.0, None, status="failed", error="no [red]room[/red] <b>")
    found = search([*trials, trial("lm", 2.0, 2520, 190), failed], second)
    return found.model_copy(
        update={"max_nfr": 0.05, "confidence": 0.95, "max_er_increase": None} if budget else {}
    )


def adjusted() -> str:
    after = AdjustFigures(
        nfr=0.04, bound=0.06, er_all=0.12, flips=4, samples_old=100, errors=18, samples=150, nll=0.5
    )
    before = after.model_copy(update={"nfr": 0.07, "er_all": 0.1, "nll": 0.7})
    chosen = Chosen(kind="bias", bias=1.25, biases={"a": 1.25, "b": 1.25}, temperature=1.5)
    report = AdjustReport(
        chosen=chosen, validation=after, before=before, max_nfr=0.05, max_er_increase=None, confidence=0.95,
        epochs=10, run="runs/new", best="runs/new/best.pt", warnings=[],
    )  # fmt: skip
    return "\n".join(describe_adjustment(report)) + "\n"


def split(console: Console) -> None:
    counts = PartCounts(old=4_650, new=1_350, all=6_000)
    print_document(
        split_document(
        SplitSummary(
            path="runs/split.json", kept=True, source="characters", data_root=None, order="random", seed=1,
            num_old=2, num_new=1, old_classes=["a_[b]", "b\x1b[2J"], new_classes=["c"], class_labels={"c": "sea"},
            parts={"train": counts, "test": counts}, quarantined=["x.png: is no picture"], notes=["a note"],
            fingerprint="0123",
        )),
        console,
    )  # fmt: skip


def show_comparison(how: str, console: Console) -> None:
    print_comparison(comparison(how), console)


def of_comparison(render: Callable[[Comparison], str], how: str) -> str:
    return render(comparison(how))


def of_flips(render: Callable[[FlipReport], str], what: str) -> str:
    return render(flips(what))


SHOWN: dict[str, Show] = {
    **{
        f"compare-{how}": partial(show_comparison, how)
        for how in ("plain", "equal-error", "against", "old-models")
    },
    "study": lambda console: print_study(study(), console),
    "flips": lambda console: print_report(flips("failed"), console),
    "flips-undecided": lambda console: print_report(flips("undecided"), console),
    "flips-full": lambda console: print_report(flips("failed"), console, full=True),
    "flips-answers": lambda console: print_report(flips("answers"), console, "nfr", full=True),
    "flips-rows": lambda console: print_report(flips("long"), console, "name", 0),
    "updates": lambda console: print_document(updates_document(updates()), console),
    "calibration": lambda console: print_calibration(calibrated(True), console, full=True),
    "split": split,
    "tune-budget": lambda console: print_tune(searched(True), console),
    **shown.SHOWN,
    "tune": lambda console: print_tune(searched(), console),
}

FILES: dict[str, Callable[[], str]] = {
    **{
        f"compare-{how}.{suffix}": partial(of_comparison, render, how)
        for how in ("plain", "equal-error", "against", "old-models")
        for suffix, render in (("md", comparison_markdown), ("tex", comparison_latex), ("csv", render_csv))
    },
    **{
        f"flips-{what}.{suffix}": partial(of_flips, render, what)
        for what in ("failed", "undecided", "answers", "long")
        for suffix, render in (
            ("md", render_flips_markdown), ("junit.xml", render_junit), ("github.txt", render_github),
        )
    },
    "adjust-bias.txt": adjusted,
}  # fmt: skip

PAGES: dict[str, Callable[[], str]] = {
    "flips": lambda: render_html(flips("failed")),
    "flips-answers": lambda: render_html(flips("answers")),
    "compare-plain": lambda: comparison_page(comparison("plain")),
    "compare-against": lambda: comparison_page(comparison("against")),
    "compare-old-models": lambda: comparison_page(comparison("old-models")),
    "study": lambda: study_page(study()),
    "tune": lambda: tune_page(searched()),
    "tune-budget": lambda: tune_page(searched(True)),
    "calibration": lambda: calibration_page(calibrated(True)),
}


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe without COLUMNS, where a line that is whole stays one line."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", SHOWN)
def test_pipe_and_colour(name: str) -> None:
    check_golden(f"{name}.pipe.txt", piped(SHOWN[name]))
    check_golden(f"{name}.colour.txt", coloured(SHOWN[name]))


@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    check_golden(name, FILES[name]())


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str) -> None:
    check_golden(f"{name}.html", readable_page(PAGES[name]()))
