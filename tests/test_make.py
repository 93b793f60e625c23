"""What the make targets say of themselves: how each of several targets ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.common import ROOT

MAKEFILE = """
sound:
\t@echo sound ran
broken:
\t@exit 3
after:
\t@echo after ran
"""


def test_a_target_that_fails_does_not_stop_those_after_it_and_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    command = [ROOT / ".ci" / "each", "sound", "broken", "after"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["sound ran", "after ran"]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["sound", "passed"], ["broken", "FAILED"], ["after", "passed"]
    ]  # fmt: skip
    assert all(line.endswith(" s") for line in lines[2:])
    done = subprocess.run([*command[:1], "after"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
