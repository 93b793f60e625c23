"""The gate without torch, DALI and Ray: what compares predictions works, and what trains says what to install.

In `make test` the modules that requirements-gate.txt leaves out are hidden from the processes. Where none of them is
installed, test_clean_environment.py runs this file, which therefore imports nothing of the other tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
# Put first on the path of a process, it makes the modules look as if they were not installed.
HIDES = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision", "nvidia", "ray", "optuna", "tensorboardX", "sklearn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
OLD, NEW = 300, 400  # samples of old classes, and of all


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files of predictions: of 300 samples of old classes, 12 flip from right to wrong."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "sitecustomize.py").write_text(HIDES)
    sample = np.arange(NEW)
    label = np.where(sample < OLD, sample % 3, 3)
    old, new = np.where(sample < OLD, label, 0), label.copy()
    new[:12] = (label[:12] + 1) % 3
    for name, pred, classes in (("old", old, 3), ("new", new, 4)):
        np.savez(folder / f"{name}.npz", id=sample, label=label, pred=pred, classes=np.arange(classes))
    return folder


def run(place: Path, *words: str, code: int = 0) -> str:
    """What a process without the modules prints, or its errors where `code`, with which it has to end, is not 0."""
    path = os.pathsep.join([str(place / "hidden"), str(ROOT), str(ROOT / "kernels")])
    done = subprocess.run(
        [sys.executable, *words], cwd=place, env=os.environ | {"PYTHONPATH": path}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def mptctl(place: Path, *words: str, code: int = 0) -> str:
    """What the command line says."""
    return run(place, "-m", "mptctl", *words, code=code)


def test_a_release_is_gated_and_kept_in_the_history(place: Path) -> None:
    pages = ["--report", "page.html", "--markdown", "page.md", "--junit", "gate.xml"]
    said = json.loads(mptctl(place, "evaluate", "old.npz", "new.npz", "--json", *pages))
    assert (said["n_old"], said["counts"]["negative_flips"]) == (OLD, 12)
    assert {"page.html", "page.md", "gate.xml"} <= {path.name for path in place.iterdir()}

    assert "gate failed: --max-nfr" in mptctl(
        place, "evaluate", "old.npz", "new.npz", "--max-nfr", "1", code=3
    )
    mptctl(place, "gate", "init", "old.npz", "new.npz", "--out", "gate.yaml")
    words = ["evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", "--append-history", "history.jsonl"]
    assert "PASSED" in mptctl(place, *words)
    assert "12 / 300" in mptctl(place, "history", "history.jsonl")


def test_kept_answers_are_compared(place: Path) -> None:
    rows = json.loads(mptctl(place, "compare", str(ROOT / "results" / "cifar10-bf16"), "--json"))["rows"]
    assert all(row["nfr"]["mean"] > 0 for row in rows)


def test_python_evaluates_arrays(place: Path) -> None:
    program = (
        "import numpy as np, mptctl; old, new = np.load('old.npz'), np.load('new.npz'); "
        "report = mptctl.evaluate(old['label'], old=old['pred'], new=new['pred'], old_classes=[0, 1, 2]); "
        "print(report.counts.negative_flips, report.gate(max_nfr=0.01).passed)"
    )
    assert run(place, "-c", program).split() == ["12", "False"]


@pytest.mark.parametrize(
    "words",
    [["quickstart"], ["bench", "loader"], ["study", "demo"], ["train-mpt"], ["tune"], ["import", "gone.pt"]],
    ids=" ".join,
)
def test_what_trains_says_what_to_install(place: Path, words: list[str]) -> None:
    said = mptctl(place, *words, code=2).splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"mptctl: {words[0]}: needs torch, which is not installed")


def test_the_doctor_says_what_works(place: Path) -> None:
    said = json.loads(mptctl(place, "doctor", "--json"))
    states = {check["name"]: check["state"] for check in said["checks"]}
    assert (states["comparisons"], states["torch"]) == ("ok", "missing")
    assert "evaluate, gate, history and compare work; to train," in " ".join(mptctl(place, "doctor").split())
    assert mptctl(place, "recipes")  # lists need no torch
    # A message names the command, and not the flag before it.
    assert "mptctl: train-old: needs torch" in mptctl(place, "--debug", "train-old", code=2)
