"""`train-mpt --max-nfr`: a budget of flips in place of k."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from mptctl.models.checkpoint import load_checkpoint
from tests.common import CommandLine, digits_with_teachers


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root of the digits with an old model and a reference; not to be written to."""
    return digits_with_teachers(tmp_path_factory.mktemp("budget"), val_fraction=0.3, epochs=4).run_root


@pytest.mark.slow
def test_a_budget_is_kept_by_the_model_beside_the_run(
    teachers: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    root = shutil.copytree(teachers, tmp_path / "runs")
    words = (
        "train-mpt", "--run-root", root, "--set", "optim.epochs=4", "--device", "cpu", "--max-nfr", "20"
    )  # fmt: skip
    plan = mptctl(*words, "--dry-run")
    assert "k from 1 on, moved to keep NFR within 20 %" in plan.stdout
    done = mptctl(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(root / "mpt-kl-adjusted" / "best.pt")]
    assert "next: mptctl evaluate old mpt-kl-adjusted" in done.stderr
    assert re.search(r"epoch 4: .*NFR [\d.]+ %, k [\d.]+", done.stderr)
    adjusted = load_checkpoint(root / "mpt-kl-adjusted" / "best.pt").meta.adjustment
    assert adjusted is not None
    assert (adjusted.adjusted, adjusted.max_nfr, adjusted.confidence) == ("mpt-kl", 0.2, 0.95)
    assert adjusted.bound is not None
    assert adjusted.bound <= 0.2
    # What is there is not thrown away, and a finished run that goes on is adjusted again.
    assert mptctl(*words, "--name", "mpt-kl").returncode == 2
    again = mptctl(*words, "--resume", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["adjusted"] == str(root / "mpt-kl-adjusted" / "best.pt")


@pytest.mark.slow
def test_a_budget_that_no_bias_meets_keeps_the_run_and_writes_no_model_beside_it(
    teachers: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    root = shutil.copytree(teachers, tmp_path / "runs")
    words = ("--set", "optim.epochs=4", "--set", "optim.lr=0.001", "--device", "cpu", "--max-nfr", "4")
    done = mptctl("train-mpt", "--run-root", root, *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--max-nfr 4: no shift keeps it; the least NFR that can be had is" in done.stderr
    assert (root / "mpt-kl" / "best.pt").is_file()
    assert not (root / "mpt-kl-adjusted").exists()
