"""Ray's workers of a study: each trains run after run, and ends with the process that started it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import ray
import torch
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mptctl.data.split import load_split
from mptctl.errors import MptctlError, Stopped, first_line, one_line
from mptctl.names import Session
from mptctl.studies.answers import run_answers
from mptctl.studies.study_plan import PlannedRun
from mptctl.training.observer import Observer
from mptctl.training.unfinished import train_unfinished, write_traceback

# Seconds between two looks whether the parent is alive: a worker must end within two seconds of the study's
# death.
LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Outcome:
    """How the training of a run in a worker ended.

    Attributes:
        status: ``done``: at the end of its training; ``stopped``: saved and stopped by a signal; ``failed``.
        error: why it failed; None for others.
    """

    status: Literal["done", "stopped", "failed"]
    error: str | None = None


class StudyWorker:
    """Trains runs in the main thread of its process, where SIGTERM makes a run save and stop.

    Args:
        run_root: of the study; all machines of a cluster share it.
    """

    def __init__(self, run_root: Path) -> None:
        self._run_root = run_root
        threading.Thread(target=_exit_after_parent, args=(os.getppid(),), daemon=True).start()

    def where(self) -> tuple[str, int]:
        """The id of the machine, by Ray, and the number of the process in which this worker is."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def train(self, run: PlannedRun) -> Outcome:
        """Train or resume a run; compute and write its predictions. An error that ends it is its outcome."""
        try:
            error = train_unfinished(
                self._run_root / run.key,
                lambda: run.request(load_split(self._run_root / run.place)),
                Observer(),
            )
            return self._outcome(run, error)
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # the next runs may be another's

    def _outcome(self, run: PlannedRun, error: Exception | None) -> Outcome:
        """Return the outcome of a run that `error` ended; without an error, compute its predictions first.

        The traceback of an unexpected error is written to a file beside the folder of the run.
        """
        try:
            if error is not None:
                raise error
            split = load_split(self._run_root / run.place)
            session = Session(self._run_root, run.recipe.runtime.device)
            run_answers(self._run_root / run.key, session, split=split)
        except Stopped:
            return Outcome("stopped")
        except MptctlError as problem:
            return Outcome("failed", one_line(problem)[:500])
        except Exception as problem:  # must not end the worker, which has other runs to train
            path = self._run_root / run.place / f"{run.name.replace('/', '-')}.error.txt"
            write_traceback(path, problem)
            return Outcome(
                "failed", f"unexpected {type(problem).__name__}: {one_line(problem)[:300]}; see {path}"
            )
        return Outcome("done")


def _exit_after_parent(parent: int) -> None:
    """Wait until the parent process has ended, then end this process, whatever it is doing.

    Ray watches the parent too, but in the thread that a long step keeps busy.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


class _Worker(NamedTuple):
    """A Ray actor of `StudyWorker`, and the promise of its machine and process; see `StudyWorker.where`."""

    actor: Any
    where: Any


class WorkerPool:
    """The workers of a study, started as they are needed and used again when idle.

    Args:
        run_root: of the study.
        size: most workers that train at once.
        cpus, gpus: cores and GPUs of one worker; a fraction of a GPU is shared.
    """

    def __init__(self, run_root: Path, size: int, cpus: int, gpus: float) -> None:
        self._run_root = run_root.resolve()
        self._size = size
        # Ray must not restart a worker that dies: its run is given to another worker.
        self._kind = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(StudyWorker)
        self._is_stopping = False
        self._idle: list[_Worker] = []
        self._busy: dict[Any, tuple[PlannedRun, _Worker]] = {}

    @property
    def has_free_slot(self) -> bool:
        """Tells whether one more worker may be given a run."""
        return len(self._busy) < self._size

    @property
    def is_idle(self) -> bool:
        """Tells whether no worker has a run to train."""
        return not self._busy

    def start(self, run: PlannedRun) -> None:
        """Give a run to an idle worker, or else to a new one."""
        if not self._idle:
            actor = self._kind.remote(self._run_root)
            self._idle.append(_Worker(actor, actor.where.remote()))
        worker = self._idle.pop()
        self._busy[worker.actor.train.remote(run)] = (run, worker)

    def finished(self, timeout: float | None) -> Iterator[tuple[PlannedRun, Outcome | str]]:
        """Wait for a worker to finish; yield the runs of finished workers with their outcomes.

        The outcome is text where the process of the worker died: the reason. After the last run, runs whose
        worker has not started are given to idle workers, so the iterator must be exhausted.

        Args:
            timeout: seconds to wait for the first worker; None: without limit.
        """
        done, _ = ray.wait(list(self._busy), timeout=timeout)
        for ended in done:
            run, worker = self._busy.pop(ended)
            outcome: Outcome | str
            try:
                outcome = ray.get(ended)
                self._idle.append(worker)
            except RayError as error:
                outcome = first_line(error)
            yield run, outcome
        if not self._is_stopping:
            self._hand_over()

    def _hand_over(self) -> None:
        """Move runs to idle workers where their own worker has not started yet.

        After a machine was lost, a new worker might wait for ever for the cores that an idle one holds.
        """
        for promise, (run, worker) in list(self._busy.items()):
            if self._idle and not _has_started(worker):
                del self._busy[promise]
                ray.kill(worker.actor)  # if it has started meanwhile, the other worker resumes its run
                self.start(run)

    def stop(self) -> None:
        """Let running workers save and stop, kill those still starting, and wait for all; drop outcomes."""
        self._is_stopping = True  # no run begins anew
        this_node = ray.get_runtime_context().get_node_id()
        for _, worker in self._busy.values():
            if not _has_started(worker):
                ray.kill(worker.actor)
                continue
            with suppress(RayError, ProcessLookupError):
                node, process = ray.get(worker.where)
                if node == this_node:
                    _terminate(process)
                else:
                    on_its_node = NodeAffinitySchedulingStrategy(node, soft=False)
                    task = ray.remote(num_cpus=0, scheduling_strategy=on_its_node)(_terminate)
                    ray.get(task.remote(process))
        while self._busy:
            list(self.finished(None))


def _has_started(worker: _Worker) -> bool:
    """Tells whether the process of a worker is there."""
    started, _ = ray.wait([worker.where], timeout=0)
    return bool(started)


def _terminate(process: int) -> None:
    """Send SIGTERM to a worker on this machine, on which it saves and stops."""
    os.kill(process, signal.SIGTERM)
