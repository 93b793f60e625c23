"""Each document, byte for byte as it is kept, in one medium."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from mptctl.data.split_summary import PartCounts, SplitSummary
from mptctl.evaluation.calibration.report import CalibrationReport, measure_calibration
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.release.adjust_report import AdjustFigures, AdjustReport, Chosen
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.documents.calibration import calibration_document
from mptctl.report.documents.ci import render_github, render_junit
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.documents.comparison_files import render_csv
from mptctl.report.documents.flips import flips_document, screen_document
from mptctl.report.documents.flips_markdown import render_markdown as render_flips_markdown
from mptctl.report.documents.flips_page import render_html
from mptctl.report.documents.split import split_document
from mptctl.report.documents.study import study_document
from mptctl.report.documents.wording import verdict_line
from mptctl.report.media.document import Document
from mptctl.report.media.page import render_document
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import Comparison
from mptctl.studies.study_report import StudyReport, StudyRow
from tests.report.examples import with_everything
from tests.report.golden import check_golden, piped, readable_page
from tests.studies.made_runs import made_seed

# Names that mean something to Markdown, LaTeX, HTML and a terminal.
ODD = "a_b 50% & <i>x</i> [red]#1[/red] $k$ {y} ~^|"
METHODS = {"no-treatment": 4.0, "mpt-kl": 2.0, "pct-kl": 2.0}


@cache
def comparison() -> Comparison:
    """Three methods of three seeds, held against one of them."""
    root = Path(mkdtemp())
    for seed in (1, 2, 3):
        made_seed(root / str(seed), seed, METHODS)
    found = compare_runs([root], against="no-treatment")
    rows = [row.model_copy(update={"name": ODD}) if row.name == "pct-kl" else row for row in found.rows]
    return found.model_copy(update={"rows": rows, "notes": ["one run was left out"]})


def study() -> StudyReport:
    runs = [
        StudyRow(seed=1, run="mpt-kl", method="mpt-kl", status="done", steps=1024),
        StudyRow(seed=1, run="x", method="mpt-lm", status="failed", steps=3, error="<i>no room</i> [red]"),
    ]
    return StudyReport(
        study="demo", run_root="runs/demo", seeds=[1], runs=runs, seconds=200,
        comparison=comparison(),
    )  # fmt: skip


def flips() -> FlipReport:
    """A failed gate with all that a report can show."""
    return with_everything("ant_[b]|<x>").model_copy(update={"warnings": ["the files have no split"]})


@cache
def calibrated() -> CalibrationReport:
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    made = [
        build_predictions(
            "m_[b]", np.arange(first, first + 90), labels, logits=rng.normal(size=(90, 3)), classes=tuple("abc")
        )
        for first in (0, 90)
    ]  # fmt: skip
    return measure_calibration(made[0], made[1], ["its run did not end"])


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


def split() -> Document:
    counts = PartCounts(old=4_650, new=1_350, all=6_000)
    return split_document(
        SplitSummary(
            path="runs/split.json", kept=True, source="characters", data_root=None, order="random", seed=1,
            num_old=2, num_new=1, old_classes=["a_[b]", "b\x1b[2J"], new_classes=["c"], class_labels={"c": "sea"},
            parts={"train": counts, "test": counts}, quarantined=["x.png: is no picture"], notes=["a note"],
            fingerprint="0123",
        )
    )  # fmt: skip


TEXTS: dict[str, Callable[[], str]] = {
    "compare.txt": lambda: piped(comparison_document(comparison())),
    "compare.csv": lambda: render_csv(comparison()),
    "study.html": lambda: readable_page(render_document(study_document(study()))),
    "flips.txt": lambda: piped(screen_document(flips())),
    "flips-full.txt": lambda: piped(flips_document(flips())),
    "flips.md": lambda: render_flips_markdown(flips()),
    "flips.junit.xml": lambda: render_junit(flips()),
    "flips.github.txt": lambda: render_github(flips(), verdict_line(flips())),
    "flips.html": lambda: readable_page(render_html(flips())),
    "calibration.txt": lambda: piped(calibration_document(calibrated(), True)),
    "split.txt": lambda: piped(split()),
    "adjust.txt": adjusted,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pipe without COLUMNS, where a line that is whole stays one line.
    for variable in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    check_golden(name, TEXTS[name]())
