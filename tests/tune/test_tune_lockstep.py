"""Searches whose trials go in lock-step: the same trials, the same choice."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from mptctl.models.run_folder import RunDir
from tests.common import assert_same_run
from tests.forked import mptctl_process
from tests.tune.conftest import finished, search, validations, wait_for

FLAGS = ("--k", "0,1,2", "--max-concurrent", "1", "--max-er-increase", "90", "--set", "optim.epochs=3")


@pytest.mark.nightly
@pytest.mark.slow
def test_trials_in_lockstep_are_those_of_any_other_search(runs: Path) -> None:
    process = search(runs, "--name", "lockstep", "--lockstep", "2", *FLAGS)
    trials = runs / "lockstep" / "trials"
    wait_for(
        lambda: len(validations(trials / "kl-k1")) >= 1 and (trials / "kl-k1" / "last.pt").exists(), process
    )
    assert validations(trials / "kl-k0")  # side by side
    assert not (trials / "kl-k2").exists()  # the third waits for the first two
    process.send_signal(signal.SIGKILL)
    process.communicate()
    report, _ = finished(search(runs, "--name", "lockstep", "--lockstep", "3", *FLAGS, "--resume"))
    assert [(t.name, t.status, t.epoch) for t in report.trials] == [
        (f"kl-k{k}", "done", 3) for k in (0, 1, 2)
    ]
    alone, _ = finished(search(runs, "--name", "alone", *FLAGS))
    for trial, other in zip(report.trials, alone.trials, strict=True):
        assert (trial.val_error, trial.val_nfr) == (other.val_error, other.val_nfr)
        assert_same_run(RunDir(Path(trial.run)), RunDir(Path(other.run)))
    assert report.choice == alone.choice


@pytest.mark.slow
def test_a_trial_that_fails_in_lockstep_is_named_and_the_other_is_what_it_is_alone(runs: Path) -> None:
    flags = ("--k", "1", "--lr", "0.05,1e30", "--lockstep", "2", "--max-er-increase", "90")
    report, _ = finished(search(runs, "--name", "wild", *flags, "--set", "optim.epochs=2"))
    good, wild = report.trials
    assert (good.status, wild.status) == ("done", "failed")
    assert wild.error is not None
    assert "not finite" in wild.error
    assert report.choice == good.name
    keys = [
        word for key in ("optim.lr=0.05", "optim.epochs=2", "runtime.threads=1") for word in ("--set", key)
    ]
    flags = ("--k", "1", "--name", "alone", "--cache-teachers", "--device", "cpu")
    done = mptctl_process("train-mpt", "--run-root", runs, *flags, *keys)
    assert done.returncode == 0, done.stderr
    assert_same_run(RunDir(Path(good.run)), RunDir(runs / "alone"))


@pytest.mark.parametrize("flags", [["--asha"], ["--search", "optuna"]])
def test_what_decides_while_trials_go_on_is_refused(runs: Path, flags: list[str]) -> None:
    done = mptctl_process(
        "tune", "--run-root", runs, "--name", "no", "--lockstep", "2", "--device", "cpu", *flags
    )
    assert done.returncode == 2
    assert f"--lockstep 2: trials in lock-step begin and end together, and {' '.join(flags)}" in done.stderr


def test_a_dry_run_says_how_many_go_together(runs: Path) -> None:
    words = (
        "tune",
        "--run-root",
        runs,
        "--name",
        "planned",
        "--lockstep",
        "2",
        "--device",
        "cpu",
        "--dry-run",
    )
    done = mptctl_process(*words)
    assert done.returncode == 0, done.stderr
    assert "2 of them at a time go in lock-step in one process: about " in done.stdout
    assert "MB of memory without pictures\neach process takes 1 CPU" in done.stdout
    plan = json.loads(mptctl_process(*words, "--json").stdout)
    one = plan["first"]["estimate"]
    assert plan["lockstep"] == 2
    # Two trials: each has its steps and its weights, and the teachers answer both at once.
    assert 0 < one["teacher_seconds"] < one["seconds"]
    assert plan["process_seconds"] == pytest.approx(2 * one["seconds"] - one["teacher_seconds"], abs=2e-3)
    assert plan["process_mb"] == pytest.approx(one["memory_mb"] + one["student_mb"], abs=0.11)
