"""Run roots with teachers, and searches in a process of their own, with Ray really running."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mptctl.machine.cluster import INNER
from mptctl.tune.tune_report import TuneReport
from tests.common import digits_with_teachers
from tests.forked import Forked

Process = Forked | subprocess.Popen[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root of the digits with an old model and a reference of three epochs."""
    return digits_with_teachers(tmp_path_factory.mktemp("tune"), val_fraction=0.1, epochs=3, seed=1).run_root


def search(runs: Path, *words: str) -> Forked:
    """`mptctl tune --json` with whatever flags."""
    return Forked("tune", "--json", "--run-root", runs, "--set", "runtime.device=cpu", *words)


def finished(process: Forked) -> tuple[TuneReport, str]:
    """The report that a search printed, once it is done, and what it said."""
    out, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return TuneReport.model_validate_json(out), said


def wait_for(what: Callable[[], Any], process: Process) -> Any:
    """Wait until something is there, while the search goes on."""
    while not (found := what()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def validations(folder: Path) -> list[str]:
    """Lines of a trial's validations, as they were written."""
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line.endswith("}") and json.loads(line)["event"] == "epoch"]


def rays_of(process: Process) -> list[str]:
    """Processes of the Ray that a search started and that are still there, its agents among them."""
    session = re.compile(rf"/mptctl-\w{{8}}/{INNER}/session_[\d_-]+_{process.pid}\b")
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_text(errors="replace")
                # Some of them change their command line; all of them write logs.
                files = [str(link.readlink()) for link in (folder / "fd").iterdir()]
            except OSError:
                continue
            if any(map(session.search, (words, *files))):
                found.append(words.replace("\0", " ")[:100])
    return found
