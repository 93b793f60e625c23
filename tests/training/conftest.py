"""Runs of the digits that take a second or two, in this process and in one that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mptctl.data.split import Split
from mptctl.models.run_folder import MetricsLine
from mptctl.recipe import Recipe
from mptctl.training.job import Job, train
from mptctl.training.result import FitResult

ROOT = Path(__file__).parent.parent.parent


class Log:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.lines: list[MetricsLine] = []

    def decoding(self, done: int, total: int) -> None:
        pass

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        self.notes = notes

    def line(self, line: MetricsLine) -> None:
        self.lines.append(line)

    def finished(self, result: FitResult) -> None:
        pass

    def closed(self) -> None:
        pass


Train = Callable[..., tuple[FitResult, Log]]


@pytest.fixture
def run(digits: Split) -> Train:
    """Train into the run root of the test's own split."""

    def go(recipe: Recipe, name: str = "run", **keys: object) -> tuple[FitResult, Log]:
        log = Log()
        job = Job(recipe=recipe, split=digits, folder=digits.run_root / name, **keys)  # type: ignore[arg-type]
        return train(job, log), log

    return go


def command(*words: str | Path) -> list[str]:
    """A command line of mptctl in a process of its own."""
    return [sys.executable, "-m", "mptctl", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """The environment for such a process: this checkout, one thread."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"} | more


def mptctl(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run mptctl to its end."""
    return subprocess.run(
        command(*words), capture_output=True, text=True, env=environment(**more), check=False, timeout=300
    )
