"""Ray's folder in a temporary directory that others write too: ours alone, and nobody else's is touched."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.machine.cluster import quiet, ray_cluster
from mptctl.machine.ray_folder import INNER, LOCK, ray_folder, remove_leftovers
from mptctl.machine.signals import StopRequest
from tests.common import environment

# A process that has Ray's folder, says where, and waits to be killed.
HOLDS = """
import time
from mptctl.machine.ray_folder import ray_folder
with ray_folder() as folder:
    folder.mkdir()
    print(folder.parent, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory that everybody may write, with a path that Ray's sockets have room for."""
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def a_process_with_a_folder(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(temporary)),
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_killed_search_leaves_a_folder_that_the_next_one_removes_but_not_before(temporary: Path) -> None:
    process, folder = a_process_with_a_folder(temporary)
    with process:
        assert (folder / INNER).is_dir()
        with ray_folder():
            assert (folder / INNER).is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / INNER).is_dir()
    with ray_folder() as inner:
        assert [path.name for path in temporary.iterdir()] == [inner.parent.name]


def test_whatever_is_not_surely_ours_stays(temporary: Path) -> None:
    """Names of no process, an earlier version's folder, no lock, other rights, other owners, links."""
    for name in (
        "mptctl-ray-4194304",
        "mptctl-ray-1",
        "mptctl-nolock00",
        "mptctl-openonly",
        "mptctl-foreign1",
    ):
        (temporary / name).mkdir(mode=0o700)
        (temporary / name / "data").write_text("somebody's")
    for name in ("mptctl-openonly", "mptctl-foreign1"):
        (temporary / name / LOCK).touch(0o600)
    (temporary / "mptctl-openonly").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(temporary / "mptctl-foreign1", 65534, 65534)
    else:
        (temporary / "mptctl-foreign1" / LOCK).unlink()  # only root can make what another user owns
    (temporary / "mptctl-fifolock").mkdir(mode=0o700)
    os.mkfifo(temporary / "mptctl-fifolock" / LOCK, 0o600)
    real = temporary / "elsewhere"
    real.mkdir(mode=0o700)
    (real / LOCK).touch(0o600)
    (temporary / "mptctl-linked00").symlink_to(real)
    (temporary / "mptctl-linklock").mkdir(mode=0o700)
    (temporary / "mptctl-linklock" / LOCK).symlink_to(real / LOCK)
    (temporary / "mptctl-file0000").write_text("no folder")
    before = sorted(temporary.rglob("*"))
    remove_leftovers(temporary)
    assert sorted(temporary.rglob("*")) == before


def test_a_temporary_directory_with_too_long_a_path_is_refused(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = temporary / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(UsageError, match=r"characters too long for Ray's sockets; set TMPDIR"), ray_folder():
        pass
    assert list(long.iterdir()) == []


@pytest.mark.slow
def test_ray_runs_in_our_folder_also_at_the_longest_path_and_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = temporary / ("x" * (25 - len(str(temporary)) - 1))
    longest.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(longest))
    foreign = longest / "mptctl-ray-4194304"
    foreign.mkdir()
    quiet(None)
    with ray_cluster(None, 1, 0.0, StopRequest()):
        [folder] = [path for path in longest.iterdir() if path != foreign]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list((folder / INNER).glob("session_*/sockets/plasma_store"))
    assert list(longest.iterdir()) == [foreign]


@pytest.mark.slow
def test_a_ray_of_our_own_neither_writes_nor_reads_a_token_in_the_home_folder(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from mptctl.machine.cluster import quiet, ray_cluster
from mptctl.machine.signals import StopRequest

quiet(None)
import ray

with ray_cluster(None, 1, 0.0, StopRequest(), 1):
    assert not (Path.home() / ".ray").exists()
    (Path.home() / ".ray").mkdir()
    (Path.home() / ".ray" / "auth_token").write_text("0" * 64)  # as another program does that starts its first Ray
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
"""
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    clean = {name: value for name, value in environment(HOME=str(tmp_path)).items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
