"""A comparison in a terminal imports nothing that it does not need and that takes a fifth of a second or more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.common import environment
from tests.studies.made_runs import made_seed

RUN = """
import sys
from mptctl.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
heavy = ("torch", "matplotlib", "jinja2", "scipy.optimize", "pandas")
loaded = [name for name in heavy if name in sys.modules]
assert not loaded, loaded
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("light")
    made_seed(folder / "1", 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    sample, logits = np.arange(300), np.random.default_rng(0).normal(size=(2, 300, 3))
    for name, own in zip(("old", "new"), logits, strict=True):
        np.savez(folder / f"{name}.npz", id=sample, label=sample % 3, logits=own, classes=np.arange(3))
    files = [str(folder / "old.npz"), str(folder / "new.npz")]
    return {
        "evaluate": ["evaluate", *files],
        "evaluate-full": ["evaluate", *files, "--full"],
        "compare": ["compare", str(folder)],
    }


@pytest.mark.parametrize("name", ["evaluate", "evaluate-full", "compare"])
def test_a_terminal_needs_no_figures(words: dict[str, list[str]], name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words[name]], env=environment(), cwd=tmp_path, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "NFR" in done.stdout
