"""What a page says of where it comes from: digests, command and versions."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptctl import __version__
from mptctl.cli.app import app
from mptctl.evaluation.reading.predictions import read_predictions
from mptctl.inference.named_models import NamedModels
from mptctl.report.documents.study import save_study_page
from mptctl.report.media.provenance import digest_of_files, digests_of_models, provenance
from mptctl.studies.compare import compare_runs
from mptctl.studies.run_folders import identify
from mptctl.studies.study_report import StudyReport, StudyRow
from tests.evaluation.files import write
from tests.studies.made_runs import made_seed

ARGV = ["/usr/bin/mptctl", "evaluate", "old.csv", "a b.csv"]


def predictions(folder: Path) -> tuple[Path, Path]:
    paths = folder / "old.csv", folder / "new.csv"
    for path, answers in zip(paths, (["a", "b", "a"], ["a", "a", "a"]), strict=True):
        write(path, id=["1", "2", "3"], label=["a", "b", "a"], pred=answers)
    return paths


def test_a_file_has_the_digest_that_others_find_too(tmp_path: Path) -> None:
    old, new = predictions(tmp_path)
    found = NamedModels({"old": read_predictions(old), "new": read_predictions(new)})
    made = provenance(ARGV, digests_of_models(found), date(2026, 6, 15))
    assert made.command == "mptctl evaluate old.csv 'a b.csv'"
    assert made.day == "2026-06-15"
    assert made.versions["mptctl"] == __version__
    digests = {f"{role}: {path}": hashlib.sha256(path.read_bytes()).hexdigest()
               for role, path in (("old", old), ("new", new))}  # fmt: skip
    assert made.digests == digests


def test_of_parts_the_digest_is_that_of_all_of_them(tmp_path: Path) -> None:
    old, new = predictions(tmp_path)
    both = hashlib.sha256(new.read_bytes() + old.read_bytes()).hexdigest()
    assert digest_of_files(str(tmp_path / "*.csv")) == both
    assert digest_of_files(str(tmp_path / "none.csv")) == "could not be read"


def test_the_page_of_evaluate_lists_every_flip_and_says_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    ids, labels = [f"{i:03d}" for i in range(60)], ["a", "b"] * 30
    write(old, id=ids, label=labels, pred=labels)
    write(new, id=ids, label=labels, pred=["a"] * 60)
    page = tmp_path / "flips.html"
    words = ["evaluate", str(old), str(new), "--report", str(page), "--json"]
    monkeypatch.setattr(sys, "argv", ["mptctl", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert hashlib.sha256(new.read_bytes()).hexdigest() in text
    found = re.search("<dt>command</dt><dd>(.*?)</dd>", text)
    assert re.sub("<[^>]*>", "", found.group(1)) == shlex.join(["mptctl", *words])
    assert re.search(r'"ids":\["001","003",.*"059"\]', text)
    # JSON lists fewer flips than the page.
    assert done.stdout.count('"old_confidence"') == 24


def test_the_page_of_a_study_has_the_digests_of_its_finished_runs(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    rows = [
        StudyRow(seed=1, run=run, method=run, status=status, steps=3, error=None)
        for run, status in (("no-treatment", "done"), ("mpt-kl", "failed"))
    ]
    study = StudyReport(
        study="demo", run_root=str(tmp_path), seeds=[1], runs=rows, comparison=compare_runs([tmp_path]),
        seconds=3,
    )  # fmt: skip
    save_study_page(study, tmp_path / "study.html", ["mptctl", "study", "demo"])
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    assert identify(tmp_path / "1" / "no-treatment").digest in page
    assert identify(tmp_path / "1" / "mpt-kl").digest not in page
