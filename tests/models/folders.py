"""Verbs that write a run folder, a run root to try them on, and what a refused one must leave as it was."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torchvision

from mptctl.data.split import make_split
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, short_recipe

SMALL = ["--device", "cpu", "--set", "optim.max_steps=1", "--set", "runtime.threads=1"]
# A network of torchvision's whose weights are 2 MB, since every test has a copy of them.
NETWORK = "shufflenet_v2_x0_5"
VERBS = {
    "train-old": ["train-old", *SMALL],
    "train-ref": ["train-ref", *SMALL],
    "train-mpt": ["train-mpt", *SMALL],
    "train-baseline": ["train-baseline", "no-treatment", *SMALL],
    "tune": ["tune", "--k", "0", *SMALL],
    "import": ["import", "WEIGHTS", "--arch", NETWORK, "--class-names", "NAMES", "--set", "data.image_size=32"],
}  # fmt: skip
every_verb = pytest.mark.parametrize("verb", VERBS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with two teachers and, beside it, a run that is outside, and a model from elsewhere."""
    base = tmp_path_factory.mktemp("base")
    split = make_split("digits", run_root=base / "runs")
    for name in ("old", "ref"):
        recipe = short_recipe("optim.max_steps=1")
        train(RunRequest(recipe, split, base / "runs" / name, only_old_classes=name == "old"), Observer())
    shutil.copytree(base / "runs" / "ref", base / "outside")
    (base / "outside" / "thesis.txt").write_text("three years of work")
    torch.save(torchvision.models.get_model(NETWORK, num_classes=5).state_dict(), base / "foreign.pt")
    (base / "classes.txt").write_text("0\n1\n2\n3\n4\n")
    return base


@pytest.fixture
def base(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(models, tmp_path / "base", symlinks=True)


@pytest.fixture(autouse=True)
def never_hangs() -> Iterator[None]:
    """A command that waits for a FIFO would wait forever: after two minutes the signal ends the test."""

    def stop(*_: object) -> None:
        raise TimeoutError("hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def words(verb: str, base: Path, *more: str) -> list[str]:
    places = {"WEIGHTS": str(base / "foreign.pt"), "NAMES": str(base / "classes.txt")}
    return [*(places.get(word, word) for word in VERBS[verb]), "--run-root", str(base / "runs"), *more]


def state(base: Path) -> dict[str, tuple[int, ...]]:
    """Everything that a command could have changed, cached pictures excepted."""
    found = {}
    for path in base.rglob("*"):
        if "cache" not in path.parts:
            was = path.lstat()
            time = was.st_mtime_ns if path.name != "runs" else 0  # the cache is made in it
            found[str(path)] = (was.st_ino, was.st_mode, was.st_size, time)
    return found


def refused(mptctl: CommandLine, base: Path, line: list[str]) -> str:
    """Run a command that must end with 2, in one line, and change nothing."""
    before = state(base)
    done = mptctl(*line)
    assert done.returncode == 2, done.stderr
    said = [text for text in done.stderr.splitlines() if text.startswith("mptctl:")]
    assert len(said) == 1, done.stderr
    assert state(base) == before
    return said[0]


def a_search(base: Path) -> Path:
    """A folder of a search that an earlier version of mptctl left, without a trial."""
    folder = base / "runs" / "tune"
    (folder / "trials").mkdir(parents=True)
    text = json.dumps({"sampler": "grid", "trials": [], "split_fingerprint": "0" * 64})
    (folder / "trials.json").write_text(text)
    return folder
