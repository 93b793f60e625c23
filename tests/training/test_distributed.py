"""Two workers over gloo: the run of one, and what happens when one of them dies."""

from __future__ import annotations

import subprocess
import sys
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
