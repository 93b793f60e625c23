"""The gate's own environment, made as action.yml makes it: how large it is, and the gate's tests in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.common import ROOT
from tests.light.test_action import step

# What docs/ci.md promises, pip aside.
MOST = 620 * 10**6


@pytest.mark.nightly
def test_the_gate_installs_light_and_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = os.environ | {
        "PYTHON": sys.executable, "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT)
    }  # fmt: skip
    subprocess.run(["bash", "-ec", step("Install")["run"]], env=environment, check=True)
    place = tmp_path / "mptctl"
    python = place / "bin" / "python"
    files = [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files if "pip" not in path.parts)
    with capsys.disabled():
        print(f"\nthe gate's own environment: {size / 1e6:.0f} MB")
    assert size <= MOST

    subprocess.run([python, "-m", "pip", "install", "--quiet", "pytest"], check=True)
    # Away from the tree, so that the installed program is what runs.
    alone = Path("tests", "light", "test_gate_alone.py")
    (tmp_path / alone).parent.mkdir(parents=True)
    shutil.copy(ROOT / alone, tmp_path / alone)
    shutil.copytree(ROOT / "results" / "cifar10-bf16", tmp_path / "results" / "cifar10-bf16")
    subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", alone], cwd=tmp_path, check=True)
