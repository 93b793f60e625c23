"""What version 0.1.0 left behind stays of use: its models are measured, and its runs go on."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

from mptctl.data.split import load_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe
from tests.common import CommandLine

# The command of the run that was stopped at step 2 of 24.
STOPPED = [
    "train-baseline", "pct-kl", "--set", "optim.epochs=2", "--set", "runtime.checkpoint_every_steps=1",
    "--cache-teachers", "--set", "runtime.cache_limit_gb=1",
]  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The run root: a split of the digits, a finished `old`, a stopped `pct-kl`, and kept teacher logits."""
    with tarfile.open(Path(__file__).parent / "runs.tar.gz") as archive:
        archive.extractall(tmp_path / "runs", filter="data")
    return tmp_path / "runs"


def test_its_checkpoints_are_measured(runs: Path, mptctl: CommandLine) -> None:
    done = mptctl(
        "evaluate", runs / "old" / "best.pt", runs / "pct-kl" / "last.pt", "--run-root", runs, "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["n"] == len(load_split(runs).indices("test"))
    assert sum(report["counts"].values()) == report["n_old"]


def test_its_recipes_are_read(runs: Path) -> None:
    for name in ("old", "pct-kl"):
        text = (runs / name / "recipe.yaml").read_text()
        assert "  workers: 0\n" in text
        assert (
            load_recipe(str(runs / name / "recipe.yaml"))
            == load_checkpoint(next((runs / name).glob("*.pt"))).meta.recipe
        )


def test_its_stopped_run_goes_on_to_the_end_with_the_logits_that_were_kept(
    runs: Path, mptctl: CommandLine
) -> None:
    (kept,) = (runs / "cache" / "teachers").iterdir()
    done = mptctl(*STOPPED, "--run-root", runs, "--resume")
    assert done.returncode == 0, done.stderr
    assert "goes on from last.pt, step 2" in done.stderr
    run = RunDir(runs / "pct-kl")
    assert load_checkpoint(run.last).meta.global_step == 24
    lines = read_metrics(run.metrics)
    assert [line.step for line in lines if line.event == "epoch"] == [12, 24]
    assert lines[-1].event == "done"
    made_by = json.loads((kept / "question.json").read_text())
    if made_by["torch"] == str(torch.__version__):  # another torch may compute other logits
        assert (kept / "epoch-0001.bin").exists(), "other logits than the kept ones were taken"
