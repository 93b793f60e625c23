"""Rows 22 and 25: a worker of Ray or of a distributed run that is killed while the others go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import make_folder, short_recipe
from tests.forked import mptctl_process, workers
from tests.training.test_distributed import FLAGS
from tests.training.test_distributed import finished as finished_workers
from tests.tune.conftest import finished, search, validations, wait_for


@pytest.mark.parametrize("worker", [0, 1], ids=["the one that saves", "another"])
def test_row_25_when_one_worker_dies_all_stop_and_resume_goes_on(digits: Split, worker: int) -> None:
    root = digits.run_root
    folder = RunDir(root / "two")
    words = ("train-ref", "--run-root", root, *FLAGS, "--name", "two", "--set", "optim.epochs=8")
    both = workers(2, *words, "--set", "runtime.checkpoint_every_steps=2")
    wait_for(lambda: any(line.event == "checkpoint" for line in read_metrics(folder.metrics)), both[worker])
    both[worker].kill()
    both[worker].communicate()
    _, err = both[1 - worker].communicate(timeout=300)
    assert both[1 - worker].returncode == 1
    saved = load_checkpoint(folder.last).meta.global_step
    assert saved >= 2
    assert "of 2: another worker is gone; look at its message, then start all of them again" in err
    again = mptctl_process(*words, "--resume", "--dry-run")
    assert again.returncode == 0, again.stderr
    finished_workers(workers(2, *words, "--resume"))
    assert load_checkpoint(folder.last).meta.global_step == 8 * 12


@pytest.mark.slow
def test_row_22_without_test_pictures_with_a_trial_killed_and_one_that_diverges(tmp_path: Path) -> None:
    pictures, runs = make_folder(tmp_path / "pictures", classes=3, train=20, val=2, size=8), tmp_path / "runs"
    split = make_split("imagefolder", run_root=runs, data_root=pictures, val_fraction=0.2)
    for picture in (pictures / "val").rglob("*.jpg"):
        picture.unlink()  # whoever reads a test picture now fails
    small = ("optim.batch_size=8", "data.loader=threaded")
    for name in ("old", "ref"):
        train(
            RunRequest(short_recipe(*small), split, runs / name, only_old_classes=name == "old"), Observer()
        )
    with open(tmp_path / "recipe.yaml", "w", encoding="utf-8") as file:
        file.write(short_recipe(*small, "optim.epochs=60").to_yaml())
    flags = (
        "--recipe", str(tmp_path / "recipe.yaml"), "mpt-kl", "--search", "method.k=1", "--search",
        "optim.lr=0.05,1e30", "--max-er-increase",
        "100",
    )  # fmt: skip
    process = search(runs, *flags)
    trial = RunDir(runs / "tune" / "trials" / "mpt-kl-k1-lr0.05")
    wait_for(lambda: trial.last.exists() and len(validations(trial.path)) >= 2, process)
    os.kill(int((trial.path / "lock").read_text()), signal.SIGKILL)
    before = validations(trial.path)
    assert len(before) < 60, "killed too late"
    report, said = finished(process)
    good, bad = report.trials
    assert (good.name, good.status, good.restarts, good.epoch) == ("mpt-kl-k1-lr0.05", "done", 1, 60)
    assert validations(trial.path)[: len(before) - 1] == before[:-1]
    assert (bad.status, bad.restarts) == ("failed", 0)
    assert "not finite" in (bad.error or "")
    assert "mpt-kl-k1-lr1e+30: failed" in said
    assert report.choice == "mpt-kl-k1-lr0.05"
