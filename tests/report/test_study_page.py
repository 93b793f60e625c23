"""The page of a study: its table, every run, and where the runs come from."""

from __future__ import annotations

import html
import re
from pathlib import Path

from mptctl.report.documents.comparison import spread_text
from mptctl.report.documents.study import save_study_page
from mptctl.studies.compare import compare_runs
from mptctl.studies.run_folders import identify
from mptctl.studies.study_report import StudyReport, StudyRow
from tests.studies.made_runs import made_seed

ARGV = ["mptctl", "study", "demo", "--report", "study.html"]


def cells(page: str) -> list[str]:
    """The texts of all cells, without what stands below them in small letters."""
    found = re.findall(r"<td[^>]*>(.*?)(?:<small>.*?</small>)?</td>", page, re.DOTALL)
    return [html.unescape(text) for text in found]


def test_the_table_its_runs_and_their_digests(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    made_seed(root / "1", 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    table = compare_runs([root])
    names = ["no-treatment", "mpt-kl"]
    runs = [StudyRow(seed=1, run=name, method=name, status="done", steps=24) for name in names]
    failed = StudyRow(seed=1, run="x", method="mpt-lm", status="failed", steps=3, error="<i>no room</i>")
    study = StudyReport(
        study="demo", run_root=str(root), seeds=[1], runs=[*runs, failed], comparison=table, seconds=3
    )
    save_study_page(study, tmp_path / "study.html", ARGV)
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    for row in table.rows:
        assert spread_text(row.nfr) in page
        assert row.name in cells(page)
    assert "2 of 3 runs are done" in page
    assert "&lt;i&gt;no room&lt;/i&gt;" in page
    for name in names:
        assert identify(root / "1" / name).digest in page
    assert '<header class="failed">' in page
