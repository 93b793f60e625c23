"""Two workers over gloo: the run of one, and what happens when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from tests.common import ROOT, environment, mptctl_process

FLAGS = ["--set", "runtime.device=cpu", "--set", "runtime.threads=1", "--seed", "0"]


def two_workers(root: Path, *words: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return [*launcher, "-m", "mptctl", "train-ref", "--run-root", str(root), *FLAGS, *words]


@pytest.mark.parametrize("pieces", [1, 3])
def test_two_workers_give_the_run_of_one_but_for_batch_statistics(digits: Split, pieces: int) -> None:
    """With a frozen body there are no batch statistics, and only the order of sums differs."""
    root = digits.run_root
    keys = ["--set", "model.train=head", "--set", "optim.epochs=2"]
    out = subprocess.run(
        two_workers(root, "--name", "two", *keys, "--set", f"optim.accumulate={pieces}"),
        capture_output=True, text=True, env=environment(), cwd=ROOT, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert out.stdout.count("best.pt") == 1
    assert mptctl_process("train-ref", "--run-root", root, "--name", "one", *FLAGS, *keys).returncode == 0
    one, two = (load_checkpoint(root / name / "last.pt") for name in ("one", "two"))
    assert one.meta.global_step == two.meta.global_step
    for key, value in one.model.items():
        torch.testing.assert_close(two.model[key], value, rtol=1e-4, atol=1e-5)
    lines = [
        [
            (line.step, line.val_error)
            for line in read_metrics(RunDir(root / name).metrics)
            if line.event == "epoch"
        ]
        for name in ("one", "two")
    ]
    assert lines[0] == lines[1]


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers through Linux's /proc")
@pytest.mark.parametrize("worker", [0, 1], ids=["the one that saves", "another"])
def test_when_one_worker_dies_all_stop_and_resume_goes_on(digits: Split, worker: int) -> None:
    root = digits.run_root
    keys = ["--set", "optim.epochs=20", "--set", "runtime.checkpoint_every_steps=2"]
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
    assert "mptctl:" in err
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
