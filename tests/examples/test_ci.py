"""The example for GitLab: its commands are run, on a release that may go out and on one that may not.

The one for GitHub uses the action, whose steps tests/light runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]


def commands() -> list[str]:
    """What the job on GitLab runs after it has installed us, in order."""
    page: Any = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text())
    return list(page["gate"]["script"])


@pytest.fixture
def job(tmp_path: Path) -> Any:
    """Run the job's commands in a folder with two predictions files and a gate file."""
    labels = np.array(["x", "y"] * 20)
    np.savez(tmp_path / "old.npz", id=np.arange(40), label=labels, pred=labels, classes=["x", "y"])
    new = np.where(np.arange(40) < 38, labels, "z")
    np.savez(tmp_path / "new.npz", id=np.arange(40), label=labels, pred=new, classes=["x", "y", "z"])
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mptctl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mptctl "$@"\n')
    (programs / "mptctl").chmod(0o755)

    def run(limit: str) -> list[int]:
        (tmp_path / "gate.yaml").write_text(f"limits: {{max_nfr: {limit}}}\n")
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")]),
        }
        return [
            subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=False).returncode
            for command in commands()
        ]

    return run


@pytest.mark.parametrize(("limit", "code"), [("5", 0), ("4", 3)])
def test_the_job_gates(job: Any, tmp_path: Path, limit: str, code: int) -> None:
    codes = job(limit)
    assert codes == [code] + [0] * (len(codes) - 1)
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()[0]
    assert suite.get("failures") == str(int(code != 0))
    verdict = "### ✅ Passed: NFR " if not code else "### ❌ Failed: NFR "
    assert (tmp_path / "gate.md").read_text().startswith(verdict)
