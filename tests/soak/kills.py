"""Starting a job, killing it at a random moment, and starting it again until it has been killed often enough."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.common import command, environment
from tests.faults.test_studies import is_alive
from tests.soak.jobs import Job
from tests.tune.conftest import Process, rays_of

# Seconds within which what a killed command had started must be gone: of the contract, and as much again for the
# machine's load.
GONE = 30


def whole_process(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a command line with its imports, as a user does."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*words), stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=environment())


def soak(job: Job, kills: int, folder: Path, rng: random.Random, start: Callable[..., Process]) -> None:
    """Do a job once undisturbed and once with so many kills; fails where it ends otherwise.

    The moments are spread over the time that the undisturbed one took, so that they hit imports, reading, training,
    and the writing of every file. A start that ends before its kill is held against the undisturbed one too, and the
    job begins anew. `start` is given the words of its command line and its folder, as `cwd`.
    """
    prepared, work = folder / "prepared", folder / "work"
    prepared.mkdir()
    job.prepare(prepared)
    shutil.copytree(prepared, work)
    began = time.monotonic()
    wanted = _finish(job, work, start)
    lasts = time.monotonic() - began
    _begin_anew(prepared, work)
    hits = 0
    for _ in range(4 * kills):
        if hits == kills:
            break
        process = start(*job.words(work), cwd=work)
        try:
            printed, said = process.communicate(timeout=rng.uniform(0, lasts))
        except subprocess.TimeoutExpired:
            _kill(process, work)
            hits += 1
            continue
        assert process.returncode == 0, f"{job.name}: {process.returncode}: {said}"
        assert job.result(work, printed) == wanted, f"{job.name} after {hits} kills"
        _begin_anew(prepared, work)
    assert hits == kills
    assert _finish(job, work, start) == wanted, f"{job.name} after {hits} kills"


def _begin_anew(prepared: Path, work: Path) -> None:
    shutil.rmtree(work)
    shutil.copytree(prepared, work)


def _finish(job: Job, folder: Path, start: Callable[..., Process]) -> Any:
    process = start(*job.words(folder), cwd=folder)
    printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, f"{job.name}: {process.returncode}: {said}"
    return job.result(folder, printed)


def _kill(process: Process, folder: Path) -> None:
    """SIGKILL, and the end of all that it had started."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + GONE
    while rays_of(process) or any(map(is_alive, _holders(folder))):
        assert time.monotonic() < until, f"something is left of process {process.pid}"
        time.sleep(0.05)


def _holders(folder: Path) -> list[int]:
    return [int(text) for lock in folder.rglob("lock") if (text := lock.read_text().strip()).isdecimal()]
