"""The processes of a study: each run is a task of Ray's, and ends with the command that started it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import ray
import torch
from ray.exceptions import RayError

from mptctl.data.split import load_split
from mptctl.errors import MptctlError, Stopped, first_line, one_line
from mptctl.names import Session
from mptctl.studies.answers import run_answers
from mptctl.studies.study_plan import PlannedRun
from mptctl.training.observer import Observer
from mptctl.training.train import train_unfinished, write_traceback

# Seconds between two looks whether the parent is alive: a process must end within two seconds of the study's
# death.
LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Outcome:
    """How the training of a run ended.

    Attributes:
        status: ``done``: at the end of its training; ``died``: its process died.
        error: why it failed or died; empty for one that is done.
    """

    status: Literal["done", "failed", "died"]
    error: str = ""


def train_run(run_root: Path, run: PlannedRun) -> Outcome:
    """Train or resume a run; compute and write its predictions. An error that ends it is its outcome.

    Runs in the main thread of a process of Ray's, where a cancelled run saves and stops. The traceback of an
    unexpected error is written to a file beside the folder of the run.

    Args:
        run_root: of the study; all machines of a cluster share it.
        run: with the keys that the machine decides.
    """
    _end_with_parent()
    folder = run_root / run.key
    try:
        train_unfinished(folder, lambda: run.request(load_split(run_root / run.split_folder)), Observer())
        session = Session(run_root, run.recipe.runtime.device)
        if not run.is_trial:  # a trial never sees the test part
            run_answers(folder, session, split=load_split(run_root / run.split_folder))
    except Stopped:
        return Outcome("failed", "was stopped from outside; start the same command again")
    except MptctlError as problem:
        return Outcome("failed", one_line(problem)[:500])
    except Exception as problem:  # must not end the process, which may train other runs
        path = run_root / run.split_folder / f"{run.name.replace('/', '-')}.error.txt"
        write_traceback(path, problem)
        return Outcome(
            "failed", f"unexpected {type(problem).__name__}: {one_line(problem)[:300]}; see {path}"
        )
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # the next runs may be another's
    return Outcome("done")


@cache
def _end_with_parent() -> None:
    """Start the thread that ends this process when its parent has ended; once a process."""
    threading.Thread(target=_exit_after_parent, args=(os.getppid(),), daemon=True).start()


def _exit_after_parent(parent: int) -> None:
    """Wait until the parent process has ended, then end this process, whatever it is doing.

    Ray watches the parent too, but in the thread that a long step keeps busy.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


class WorkerPool:
    """The runs that are trained now, a limited number at a time.

    Args:
        run_root: of the study.
        size: most runs that are trained at once.
        cpus, gpus: cores and GPUs of one run; a fraction of a GPU is shared.
    """

    def __init__(self, run_root: Path, size: int, cpus: int, gpus: float) -> None:
        self._run_root = run_root.resolve()
        self._size = size
        # The board counts restarts, so Ray makes none. A process that has used a GPU keeps that one, so with
        # GPUs each run gets a process of its own.
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0, "max_calls": 1 if gpus else 0}
        self._task: Any = ray.remote(**options)(train_run)
        self._busy: dict[Any, PlannedRun] = {}

    @property
    def has_free_slot(self) -> bool:
        """Tells whether one more run may be started."""
        return len(self._busy) < self._size

    @property
    def is_idle(self) -> bool:
        """Tells whether no run is being trained."""
        return not self._busy

    def start(self, run: PlannedRun) -> None:
        """Start a run, as soon as a machine has room for it."""
        self._busy[self._task.remote(self._run_root, run)] = run

    def finished(self, timeout: float | None) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Wait for a run to end; yield the runs that have ended with their outcomes.

        Args:
            timeout: seconds to wait for the first run; None: without limit.
        """
        done, _ = ray.wait(list(self._busy), timeout=timeout)
        for ended in done:
            run = self._busy.pop(ended)
            try:
                outcome = ray.get(ended)
            except RayError as error:
                outcome = Outcome("died", first_line(error))
            yield run, outcome

    def stop(self) -> None:
        """Let runs save and stop, and wait for all; those that have not started never do. Drop outcomes."""
        for task in self._busy:
            ray.cancel(task)
        while self._busy:
            list(self.finished(None))
