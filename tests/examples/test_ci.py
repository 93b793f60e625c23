"""The example for GitLab: its commands are run, on a release that may go out and on one that may not.

The one for GitHub uses the action, whose steps tests/light runs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.common import ROOT, environment, programs, write_release


@pytest.mark.parametrize(("limit", "code"), [("5", 0), ("4", 3)])
def test_the_job_gates(tmp_path: Path, limit: str, code: int) -> None:
    write_release(tmp_path)
    (tmp_path / "gate.yaml").write_text(f"limits: {{max_nfr: {limit}}}\n")
    variables = environment(PATH=f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}")
    page: Any = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text())
    codes = [
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=variables, check=False).returncode
        for command in page["gate"]["script"]  # what it runs after it has installed us
    ]
    assert codes == [code] + [0] * (len(codes) - 1)
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()[0]
    assert suite.get("failures") == str(int(code != 0))
    verdict = "### ✅ Passed: NFR " if not code else "### ❌ Failed: NFR "
    assert (tmp_path / "gate.md").read_text().startswith(verdict)
