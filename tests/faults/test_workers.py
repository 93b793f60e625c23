"""Rows 22 and 25: a worker of Ray or of a distributed run that is killed while the others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.report.training_progress import Silent
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import ROOT, environment, make_folder, mptctl_process, short_recipe
from tests.training.test_distributed import FLAGS, two_workers
from tests.tune.conftest import finished, search, validations, wait_for


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers through Linux's /proc")
@pytest.mark.parametrize(
    ("worker", "more"),
    [(0, []), (1, []), (1, ["--set", "runtime.sync_batchnorm=true"])],
    ids=["the one that saves", "another", "another with synchronised batch statistics"],
)
def test_row_25_when_one_worker_dies_all_stop_and_resume_goes_on(
    digits: Split, worker: int, more: list[str]
) -> None:
    root = digits.run_root
    keys = ["--set", "optim.epochs=20", "--set", "runtime.checkpoint_every_steps=2", *more]
    folder = RunDir(root / "two")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        two_workers(root, "--name", "two", *keys),
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment(),
        cwd=ROOT,
    ) as process:
        deadline = time.monotonic() + 300
        while not any(line.event == "checkpoint" for line in read_metrics(folder.metrics)):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(children_of(process.pid)[worker], signal.SIGKILL)
        _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    saved = load_checkpoint(folder.last).meta.global_step
    assert saved >= 2
    assert "of 2: another worker is gone; look at its message, then start all of them again" in err
    again = mptctl_process(
        "train-ref", "--run-root", root, "--name", "two", *FLAGS, *keys, "--resume", "--dry-run"
    )
    assert again.returncode == 0, again.stderr
    out = subprocess.run(
        two_workers(root, "--name", "two", "--resume", *keys, "--set", "optim.epochs=20"),
        capture_output=True, text=True, env=environment(), cwd=ROOT, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert load_checkpoint(folder.last).meta.global_step == 20 * 12


@pytest.mark.slow
def test_row_22_without_test_pictures_with_a_trial_killed_and_one_that_diverges(tmp_path: Path) -> None:
    pictures, runs = make_folder(tmp_path / "pictures", classes=3, train=20, val=2, size=8), tmp_path / "runs"
    split = make_split("imagefolder", run_root=runs, data_root=pictures, val_fraction=0.2)
    for picture in (pictures / "val").rglob("*.jpg"):
        picture.unlink()  # whoever reads a test picture now fails
    small = ("optim.batch_size=8", "data.loader=threaded")
    for name in ("old", "ref"):
        train(RunRequest(short_recipe(*small), split, runs / name, only_old_classes=name == "old"), Silent())
    with open(tmp_path / "recipe.yaml", "w", encoding="utf-8") as file:
        file.write(short_recipe(*small, "optim.epochs=60").to_yaml())
    flags = (
        "--recipe",
        str(tmp_path / "recipe.yaml"),
        "--k",
        "1",
        "--lr",
        "0.05,1e30",
        "--max-er-increase",
        "100",
    )
    process = search(runs, *flags)
    trial = RunDir(runs / "tune" / "trials" / "kl-k1-lr0.05")
    wait_for(lambda: trial.last.exists() and len(validations(trial.path)) >= 2, process)
    os.kill(int((trial.path / "lock").read_text()), signal.SIGKILL)
    before = validations(trial.path)
    assert len(before) < 60, "killed too late"
    report, said = finished(process)
    good, bad = report.trials
    assert (good.name, good.status, good.restarts, good.epoch) == ("kl-k1-lr0.05", "done", 1, 60)
    assert validations(trial.path)[: len(before) - 1] == before[:-1]
    assert (bad.status, bad.restarts) == ("failed", 0)
    assert "not finite" in (bad.error or "")
    assert "kl-k1-lr1e+30: failed" in said
    assert report.choice == "kl-k1-lr0.05"
    assert report.second is None
