"""Ray's folder in the temporary directory, and a Ray of our own in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.machine.cluster import ray_folder
from mptctl.machine.ray_watchdog import end_all
from tests.common import environment


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory that everybody may write, with a path that Ray's sockets have room for."""
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def test_a_temporary_directory_with_too_long_a_path_is_refused(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = short / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(UsageError, match=r"characters too long for Ray's sockets; set TMPDIR"), ray_folder():
        pass
    assert list(long.iterdir()) == []


OUR_RAY = """
import os, stat
from pathlib import Path
from mptctl.machine.cluster import INNER, ray_cluster, set_ray_environment
from mptctl.machine.signals import StopRequest

set_ray_environment(None)
import ray

with ray_cluster(None, 1, 0.0, StopRequest(), 1):
    [folder] = Path(os.environ["TMPDIR"]).glob("mptctl-????????")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list((folder / INNER).glob("session_*/sockets/plasma_store"))
    assert not (Path.home() / ".ray").exists()
    (Path.home() / ".ray").mkdir()
    (Path.home() / ".ray" / "auth_token").write_text("0" * 64)  # as another program does that starts its first Ray
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
"""


@pytest.mark.slow
def test_a_ray_of_our_own_runs_in_our_folder_also_at_the_longest_path_with_its_own_token_and_leaves_nothing(
    short: Path, tmp_path: Path
) -> None:
    longest = short / ("x" * (25 - len(str(short)) - 1))
    longest.mkdir()
    foreign = longest / "mptctl-ray-4194304"
    foreign.mkdir()
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    kept = environment(HOME=str(tmp_path), TMPDIR=str(longest))
    clean = {name: value for name, value in kept.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", OUR_RAY], env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(longest.iterdir()) == [foreign]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds processes through Linux's /proc")
def test_who_writes_in_the_folder_of_a_killed_ray_is_ended_and_who_removes_or_reads_it_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "worker.out"
    log.touch()
    opened = {"writes": (os.O_WRONLY, log), "reads": (os.O_RDONLY, log), "walks": (os.O_RDONLY, log.parent)}
    processes = {}
    for name, (flags, path) in opened.items():
        stream = os.open(path, flags)
        processes[name] = subprocess.Popen(["sleep", "60"], stdin=stream)
        os.close(stream)
    try:
        end_all(str(tmp_path), but=os.getpid())
        assert processes["writes"].wait(timeout=10) == -signal.SIGKILL
        assert [processes[name].poll() for name in ("reads", "walks")] == [None, None]
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds processes through Linux's /proc")
def test_a_command_that_looks_for_leftovers_is_not_ended_with_a_ray(tmp_path: Path) -> None:
    code = """
import fcntl, sys, time
from pathlib import Path
from mptctl.files.scratch import remove_leftovers

def flock(file, how):  # waits where the mark of a folder is open, and finds it held
    print("open", flush=True)
    time.sleep(60)

fcntl.flock = flock
remove_leftovers(Path(sys.argv[1]))
"""
    folder = tmp_path / "mptctl-ray"
    folder.mkdir(mode=0o700)
    (folder / "scratch.json").touch()
    looks = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert looks.stdout is not None
        assert looks.stdout.readline() == "open\n"
        end_all(str(folder), but=os.getpid())
        assert looks.poll() is None
    finally:
        looks.kill()
        looks.communicate()
