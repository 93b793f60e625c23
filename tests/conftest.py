"""What many tests share: one thread for torch, a split of the digits, and recipes that take seconds."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import none

from mptctl.cli.app import main
from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split, make_split
from mptctl.recipe import DataRecipe, Recipe
from mptctl.training.observer import FitResult
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import (
    CPU,
    SESSION,
    CommandLine,
    Done,
    Log,
    MakeLoader,
    Train,
    digits_with_teachers,
    made_once,
    make_folder,
    short_recipe,
)
from tests.forked import join_server, share_server

# Else each of the many processes that tests start would compile the program anew, and the tests too.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Nothing that tests are collected with becomes garbage; the search for it took a third of that time.
gc.disable()

# Two cores are shared by many tests; more threads than cores make all of them slow.
torch.set_num_threads(1)

# A shell that starts the tests in the background has them ignore Ctrl-C, and so the programs that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is timed: a busy machine is no failure.
settings.register_profile("mptctl", deadline=None, max_examples=50)
settings.load_profile("mptctl")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """The process that starts those that run tests, and outlives them, makes one for them to fork commands from."""
    node.workerinput["forked_from"] = share_server()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each of the others joins it."""
    if address := getattr(session.config, "workerinput", {}).get("forked_from"):
        join_server(address)


# Those whose tests take longest, the longest first: what several of their tests share is made once, by one process.
LONGEST = (
    "tune/test_sweep.py", "faults/test_studies.py", "kernels/test_interpreter.py", "studies/test_quickstart.py",
    "faults/test_workers.py", "training/test_distributed.py", "bench/test_loader.py", "studies/test_two_machines.py",
    "studies/test_every_study.py", "fuzz/test_fuzz.py",
    "faults/test_storage.py", "faults/test_memory.py", "faults/test_training.py",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deals the longest files to the beginnings of the parts that xdist cuts the tests into; a part's end is stolen."""
    parts = getattr(config, "workerinput", {}).get("workercount", 1)
    files = [[item for item in items if item.path.match(f"tests/{name}")] for name in LONGEST]
    heads = [[item for file in files[part::parts] for item in file] for part in range(parts)]
    dealt = {id(item) for head in heads for item in head}
    rest = [item for item in items if id(item) not in dealt]
    total = len(items)
    items.clear()
    for left, head in zip(range(parts, 0, -1), heads, strict=True):
        size = max((total - len(items)) // left - len(head), 0)
        items += [*head, *rest[:size]]
        del rest[:size]
    items += rest


def pytest_collection_finish() -> None:
    """The garbage collector looks at what tests make, and no longer at what was imported and collected.

    A first test of Hypothesis comes before: it looks for who holds its random numbers, which 6.135 keeps in a module.
    So does a first backward pass: after one of compiled code, forked children could not go backwards.
    """
    torch.ones(1, requires_grad=True).sum().backward()
    settings(max_examples=1, database=None)(given(none())(lambda _: None))()
    gc.freeze()
    gc.enable()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that everybody may write."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def own_ray_environment() -> Iterator[None]:
    """What Ray, or a command that joins one, sets in the environment of this process ends with its test."""
    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    yield
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All processes of a session share one folder, which goes with its other temporary ones."""
    base = tmp_path_factory.getbasetemp()
    SESSION["folder"] = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with a split of the digits; not to be written to."""
    root = tmp_path_factory.mktemp("digits")
    make_split("digits", run_root=root)
    return root


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root of the digits with `old`, `ref` and `new`, two epochs each; not to be written to."""

    def make(root: Path) -> None:
        split = make_split("digits", run_root=root)
        for seed, name in enumerate(("old", "ref", "new")):
            recipe = short_recipe(f"runtime.seed={seed}")
            train(RunRequest(recipe, split, root / name, only_old_classes=name == "old"), Log())

    return made_once("old-ref-new", make, tmp_path_factory.mktemp("trained") / "runs")


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of the digits with an old model and a reference, of an epoch each, in a run root of the module's own."""
    return digits_with_teachers(tmp_path_factory.mktemp("taught") / "runs", val_fraction=0.1, epochs=1)


@pytest.fixture
def digits(tmp_path: Path) -> Split:
    """A split of the digits in a run root of the test's own."""
    return make_split("digits", run_root=tmp_path / "runs")


@pytest.fixture
def run(digits: Split) -> Train:
    """Train into the run root of the test's own split."""

    def go(recipe: Recipe, name: str = "run", **keys: object) -> tuple[FitResult, Log]:
        log = Log()
        job = RunRequest(recipe=recipe, split=digits, folder=digits.run_root / name, **keys)  # type: ignore[arg-type]
        return train(job, log), log

    return go


@pytest.fixture
def mptctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Run a command line as the console script does, on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["mptctl", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, out, err)

    return CommandLine(run)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 training and 16 test pictures of 4 classes; not to be changed."""
    return make_folder(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy of ``folder`` that a test may damage."""
    return shutil.copytree(folder, tmp_path / "pictures")


@pytest.fixture(scope="session")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split without a validation part, of pictures of 17 to 32 pixels a side.

    Loaders of 32 pixels make them larger: DALI declines pictures that become smaller where edges are seen.
    """
    root = make_folder(tmp_path_factory.mktemp("small"), sides=(17, 33))
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder that holds tiny-imagenet-100, cifar10-jpeg and imagenet-jpegs-250."""
    where = os.environ.get("MPTCTL_TEST_DATA")
    if not where or not (Path(where) / "imagenet-jpegs-250").is_dir():
        pytest.skip("MPTCTL_TEST_DATA does not name a folder with imagenet-jpegs-250 in it")
    return Path(where)


@pytest.fixture(scope="session")
def real_split(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """48 real photographs as training part and as test part."""
    root = tmp_path_factory.mktemp("real")
    files = sorted((real_data / "imagenet-jpegs-250" / "train").glob("*/*"))[::5][:48]
    for number, file in enumerate(files):
        for part in ("train", "val"):
            target = root / part / f"class{number % 4}"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target / f"{number}.jpg")
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


@pytest.fixture
def loader_of(tmp_path: Path, request: pytest.FixtureRequest) -> MakeLoader:
    """Make loaders on the CPU that are closed when the test ends."""

    def make(split: Split, kind: str, **changes: object) -> Loader:
        passing = {"part": "train", "batch_size": 8, "seed": 3, "train": True, "device": CPU}
        passing |= {
            key: changes.pop(key)
            for key in list(changes)
            if key in (*passing, "rank", "world_size", "num_classes")
        }
        data = DataRecipe.model_validate({"loader": kind, "image_size": 32, "threads": 2, **changes})
        plan = LoadPlan(split, data, **passing)  # type: ignore[arg-type]
        loader = make_loader(plan, tmp_path)
        request.addfinalizer(loader.close)
        return loader

    return make
