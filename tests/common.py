"""What tests of several folders use: recipes that take seconds, command lines, pictures that are generated."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer.main
from PIL import Image
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import LOADERS
from mptctl.data.split import Split, load_split, make_split
from mptctl.machine.facts import git_commit
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe, load_recipe
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train


def short_recipe(*overrides: str, method: str = "no-treatment", **fixed: Any) -> Recipe:
    """The digits preset for two epochs on one CPU thread."""
    base = ("optim.epochs=2", "runtime.device=cpu", "runtime.threads=1")
    return load_recipe("digits", (*base, *overrides), {"method.name": method, **fixed})


# Where a session of tests keeps what its processes share; tests/conftest.py says it.
SESSION: dict[str, Path] = {}


def made_once(name: str, make: Callable[[Path], object], root: Path) -> Path:
    """Copy to `root` a folder that the first process of the session that wants it makes, by `make`, for all."""
    made = SESSION["folder"] / name
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            half = made.with_name(f"half of {name}")
            make(half)
            half.rename(made)
    return shutil.copytree(made, root, dirs_exist_ok=True)


def digits_with_teachers(root: Path, *, val_fraction: float, epochs: int, seed: int = 5) -> Split:
    """A split of the digits with an old model, of that seed, and a reference, of the next, beside it."""

    def make(folder: Path) -> None:
        split = make_split("digits", run_root=folder, val_fraction=val_fraction)
        for number, name in enumerate(("old", "ref"), start=seed):
            recipe = short_recipe(f"optim.epochs={epochs}", f"runtime.seed={number}")
            train(RunRequest(recipe, split, folder / name, only_old_classes=name == "old"), Log())

    return load_split(made_once(f"digits-{val_fraction}-{epochs}-{seed}", make, root))


ROOT = Path(__file__).parent.parent

_make_command = typer.main.get_command
_commands: dict[tuple[int, ...], tuple[typer.Typer, Any]] = {}


def _command_made_once(program: typer.Typer) -> Any:
    """The command of a program; programs of the same commands share it, with what reads the values of its flags."""
    if {"-h", "--help"} & {*sys.argv}:  # help names what is registered at this moment
        return _make_command(program)
    contents = tuple(id(each) for each in (*program.registered_commands, *program.registered_groups))
    if contents not in _commands:
        # With the program, since Python gives the number of what is gone to something else.
        _commands[contents] = program, _make_command(program)
    return _commands[contents][1]


# Each command line makes its flags anew from the same functions, 30 ms a time; here once a process.
typer.main.get_command = _command_made_once  # type: ignore[assignment]


def files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All files in a folder and in those below it; a tenth of the time of `Path.rglob`."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from files_below(Path(entry.path))
        elif entry.is_file():
            yield entry


class Log(Observer):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.lines: list[MetricsLine] = []

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        self.notes = notes

    def noted(self, note: str) -> None:
        self.notes.append(note)

    def line(self, line: MetricsLine) -> None:
        self.lines.append(line)


Train = Callable[..., tuple[FitResult, Log]]


def command(*words: str | Path) -> list[str]:
    """A command line of mptctl in a process of its own."""
    return [sys.executable, "-m", "mptctl", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """The environment for such a process: this checkout, one thread."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    # A proxy that is not there, so that a process of its own reaches the network no more than pytest's does.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    nowhere["no_proxy"] = "127.0.0.1,::1,localhost"
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"} | nowhere | more


def programs(folder: Path) -> Path:
    """Put programs into a new folder, as if installed there: `mptctl` of this checkout, and this Python."""
    folder.mkdir(parents=True)
    for name, words in (("mptctl", "-m mptctl"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def write_release(folder: Path) -> None:
    """old.npz and new.npz: 40 samples, of which two flip."""
    label = np.array(["x", "y"] * 20)
    new = np.where(np.arange(40) < 38, label, "z")
    np.savez(folder / "old.npz", id=np.arange(40), label=label, pred=label, classes=["x", "y"])
    np.savez(folder / "new.npz", id=np.arange(40), label=label, pred=new, classes=["x", "y", "z"])


def assert_same_run(one: RunDir, other: RunDir) -> None:
    for name in ("best.pt", "last.pt"):
        a, b = load_checkpoint(one.path / name), load_checkpoint(other.path / name)
        assert all(torch.equal(a.model[k], b.model[k]) for k in a.model)
        stands = "epoch", "step_in_epoch", "global_step", "best_error", "metrics"
        assert [getattr(a.meta, key) for key in stands] == [getattr(b.meta, key) for key in stands]
        if a.training is not None and b.training is not None:
            state = (a.training["optimizer"]["state"], b.training["optimizer"]["state"])
            assert all(
                torch.equal(state[0][i][name], state[1][i][name]) for i in state[0] for name in state[0][i]
            )
            assert torch.equal(a.training["rng"], b.training["rng"])
            assert a.training.keys() == b.training.keys()
            average = b.training.get("average", {})
            assert all(torch.equal(v, average[k]) for k, v in a.training.get("average", {}).items())
    epochs = [[line for line in read_metrics(run.metrics) if line.event == "epoch"] for run in (one, other)]
    assert epochs[0] == epochs[1]


def train_until_killed(request: RunRequest, event: str, step: int) -> None:
    """Train in a child that is killed the moment it has written a certain line of metrics.jsonl."""

    class Dies(Log):
        def line(self, line: MetricsLine) -> None:
            if (line.event, line.step) == (event, step):
                os.kill(os.getpid(), signal.SIGKILL)

    # Forked, so that it need not import torch again.
    child = os.fork()
    if child == 0:
        try:
            train(request, Dies())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def assert_goes_on(request: RunRequest, event: str, step: int, whole: RunDir) -> FitResult:
    """A run that is killed at a line of metrics.jsonl, and is resumed, ends as the one that was left alone."""
    train_until_killed(request, event, step)
    resumed = train(replace(request, resume=True), Log())
    assert_same_run(resumed.run, whole)
    return resumed


@dataclass
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str
    peak: int = 0  # bytes in memory at most, where the process was one of its own


class CommandLine:
    """Runs command lines in this process; `must` those that have to end well."""

    def __init__(self, run: Callable[..., Done]) -> None:
        self._run = run

    def __call__(self, *words: object) -> Done:
        return self._run(*words)

    def must(self, *words: object) -> Done:
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done


CPU = torch.device("cpu")


def smooth_picture(height: int, width: int, seed: int) -> Image.Image:
    """A picture with edges and slopes, unlike any other seed's."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(2, height // 9), max(2, width // 9), 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def make_folder(
    root: Path,
    *,
    classes: int = 4,
    train: int = 10,
    val: int = 4,
    size: int | None = None,
    sides: tuple[int, int] = (40, 150),
) -> Path:
    """``train/`` and ``val/`` with JPEGs of many sizes, from the first of ``sides`` to below the other, or of one."""
    rng = np.random.default_rng(5)
    seed = 0
    for part, count in (("train", train), ("val", val)):
        for label in range(classes):
            folder = root / part / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(count):
                height, width = (size, size) if size else rng.integers(*sides, 2).tolist()
                seed += 1
                smooth_picture(height, width, seed).save(folder / f"{number:03d}.jpg", quality=90)
    return root


MakeLoader = Callable[..., Loader]


KINDS = tuple(kind.recipe_name for kind in LOADERS if "cpu" in kind.devices)
IN_MEMORY = {kind.recipe_name for kind in LOADERS if kind.in_memory}


def levels(loader: Loader, images: Tensor) -> Tensor:
    """Grey levels 0..255 of normalised pictures."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (loader.plan.data.mean, loader.plan.data.std))
    return (images * std + mean) * 255


DAMAGES = ("byte", "cut", "text", "gone")


def damage(path: Path, how: str) -> None:
    """Change a byte in the middle of a file, cut off its end, put a text in its place, or remove it."""
    content = path.read_bytes()
    middle = len(content) // 2
    path.unlink()
    if how != "gone":
        changed = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
        path.write_bytes({"byte": changed, "cut": content[:-1000], "text": b"no such file"}[how])


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Larger files have no room, as on a full disk."""
    git_commit()  # asks git once a process, which would leave a lock if it could not write its index
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
