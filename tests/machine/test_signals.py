"""Signals: the first asks, wherever a run is; the second ends the process at once."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mptctl.data.split import load_split, make_split
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, assert_same_run, command, environment
from tests.forked import Forked, mptctl_process


def ended(code: str, *words: object, **how: Any) -> tuple[int, str]:
    """The exit code of a program in a process of its own, and what it printed."""
    line = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, **{"env": environment()} | how)
    return done.returncode, done.stdout


ASKED = """
import os, sys, time
from mptctl.machine.signals import stop_on_signals
number, times = int(sys.argv[1]), int(sys.argv[2])
with stop_on_signals() as request:
    for _ in range(times):
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    print("asked", request.signum)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ends_at_once(number: int) -> None:
    assert ended(ASKED, int(number), 1) == (0, f"asked {int(number)}\n")
    assert ended(ASKED, int(number), 2) == (128 + number, "")


BROKEN_OFF = """
import os, sys, time
from mptctl.machine.signals import StopRequest, interruptible
times, stop = int(sys.argv[1]), StopRequest()
try:
    with interruptible(stop):
        with interruptible(stop):
            pass
        for _ in range(times):
            try:
                os.kill(os.getpid(), 15)
                time.sleep(1)
            except KeyboardInterrupt:
                print("broken off", stop.signum, flush=True)
        with interruptible(stop):
            print("went on")
except KeyboardInterrupt:
    print("heard before")
"""


def test_what_can_be_broken_off_is_also_after_an_inner_block_and_before_the_next() -> None:
    assert ended(BROKEN_OFF, 1) == (0, "broken off 15\nheard before\n")
    assert ended(BROKEN_OFF, 2) == (143, "broken off 15\n")


IMPORTS = """
import sys, time
from mptctl.machine.signals import StopRequest, interruptible
try:
    with interruptible(StopRequest()):
        import swallows
        for _ in range(600):
            time.sleep(0.1)
except KeyboardInterrupt:
    print("broken off after", sys.modules["swallows"].came)
"""
# As a callback of a weak reference does, of which an import makes many.
SWALLOWS = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    came = "the import"
except KeyboardInterrupt:
    came = "nothing"
"""


def test_what_is_broken_off_in_an_import_is_so_when_the_import_has_ended(tmp_path: Path) -> None:
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    assert ended(IMPORTS, cwd=tmp_path) == (0, "broken off after the import\n")


ENDS = """
import os
from mptctl.errors import MptctlError
from mptctl.machine.signals import stop_on_signals
try:
    with stop_on_signals():
        raise MptctlError("another worker is gone")
except MptctlError as error:
    os.kill(os.getpid(), 15)
    print(error)
"""


@pytest.mark.parametrize(("workers", "code", "said"), [("2", 0, "another worker is gone\n"), ("1", -15, "")])
def test_a_worker_of_several_says_why_it_ends_although_the_launcher_ends_it(
    workers: str, code: int, said: str
) -> None:
    assert ended(ENDS, env=environment(WORLD_SIZE=workers)) == (code, said)


def started(*words: str | Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*words), stdout=pipe, stderr=pipe, text=True, env=environment())


def wait_until(there: Callable[[], bool], process: Forked | subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("library", "words", "said"),
    [
        ("_pydantic_core", (), "stopped"),
        ("libtorch_cpu", (), "stopped"),
        # Imported for the network, when the run is put together.
        pytest.param(
            "torchvision", ("--set", "model.arch=resnet18", "--set", "data.image_size=32"),
            "{run}: stopped before its first step: nothing was trained and nothing was saved; start the same command "
            "again",
            marks=pytest.mark.nightly,
        ),
    ],
)  # fmt: skip
def test_ctrl_c_while_modules_are_imported_is_one_line(
    library: str, words: tuple[str, ...], said: str, digits_root: Path, tmp_path: Path
) -> None:
    run = digits_root / "never"
    with started("train-ref", "--run-root", digits_root, "--name", "never", *words) as process:
        wait_until(lambda: library in Path(f"/proc/{process.pid}/maps").read_text(), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, "", f"mptctl: {said.format(run=run)}\n")
    assert not run.exists()


@pytest.fixture(scope="module")
def slow_to_decode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root of many pictures of 9 megapixels, which are one file under many names."""
    root = tmp_path_factory.mktemp("large")
    picture = root / "picture.jpg"
    Image.radial_gradient("L").resize((3000, 3000)).convert("RGB").save(picture)
    for part, count in (("train", 200), ("val", 1)):
        for name in ("a", "b"):
            (root / part / name).mkdir(parents=True)
            for i in range(count):
                os.link(picture, root / part / name / f"{i}.jpg")
    make_split("imagefolder", run_root=root / "runs", data_root=root)
    return root / "runs"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_pictures_are_decoded_ends_it_between_two_pictures(
    signum: int, code: int, slow_to_decode: Path
) -> None:
    runs = slow_to_decode
    words = ("--recipe", "digits", "--set", "optim.batch_size=4", "--set", "runtime.device=cpu")
    process = Forked("train-ref", "--run-root", runs, *words)
    wait_until((runs / "ref" / "lock").exists, process)
    time.sleep(0.5)
    process.send_signal(signum)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (code, "")
    assert err.count("\n") == 1
    assert "nothing was trained and nothing was saved; start the same command again" in err
    # Had it come to the end of decoding, there would be a cache.
    assert not (runs / "cache").exists()
    assert not (runs / "ref").exists()


def test_a_signal_in_validation_saves_the_step_and_validates_anew(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_split("digits", run_root=root, val_fraction=0.8)
    keys = ("data.image_size=40", "optim.epochs=2", "runtime.threads=1")
    flags = [word for key in (*keys, "runtime.device=cpu") for word in ("--set", key)]
    stopped, whole = RunDir(root / "stopped"), RunDir(root / "whole")
    process = Forked("train-ref", "--run-root", root, "--name", "stopped", *flags)
    wait_until(lambda: any(line.step == 2 for line in read_metrics(stopped.metrics)), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert [line.event for line in read_metrics(stopped.metrics) if line.event != "step"] == ["checkpoint"]
    assert not stopped.best.exists()
    said = err.strip().splitlines()[-1]
    assert "saved at step 2 of 4; go on with: python -m mptctl train-ref" in said
    words = shlex.split(said.partition("go on with: ")[2])
    assert words[:3] == ["python", "-m", "mptctl"]
    resumed = mptctl_process(*words[3:])
    assert resumed.returncode == 0, resumed.stderr
    recipe = load_recipe("digits", (*keys, "runtime.device=cpu"), {"runtime.seed": 1000})
    train(RunRequest(recipe=recipe, split=load_split(root), folder=whole.path), Log())
    assert_same_run(stopped, whole)
