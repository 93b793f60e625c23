"""Ray's workers of a study: each trains run after run, and ends when whoever started it has ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
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
from mptctl.training.request import RunRequest
from mptctl.training.unfinished import train_unfinished, write_traceback

# Seconds between two looks whether the parent is still there; it must end within two seconds of the study's
# death.
LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        status: whether it came to its end, was stopped by a signal after saving, or failed.
        error: why it failed.
    """

    status: Literal["done", "stopped", "failed"]
    error: str | None = None


class StudyWorker:
    """Trains what it is given, in the main thread of its process, where SIGTERM makes a run save and stop.

    Args:
        run_root: of the study; a cluster's machines share it.
    """

    def __init__(self, run_root: Path) -> None:
        self._run_root = run_root
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def where(self) -> tuple[str, int]:
        """On which of Ray's machines it is, and the number of its process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def train(self, runs: Sequence[PlannedRun]) -> list[Outcome]:
        """Train or resume runs, several in lock-step, store their predictions, and return an outcome each.

        An error that ends a run is its outcome, and not raised.
        """
        planned = {self._run_root / run.key: run for run in runs}

        def request_of(folder: Path) -> RunRequest:
            run = planned[folder]
            return run.request(load_split(self._run_root / run.place))

        try:
            errors = train_unfinished(list(planned), request_of, lambda folder: Observer())
            return [self._outcome(run, errors.get(folder)) for folder, run in planned.items()]
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # the next runs may be another's

    def _outcome(self, run: PlannedRun, error: Exception | None) -> Outcome:
        """The outcome of a run: failed or stopped by `error`; without one, its answers are computed first."""
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
        except Exception as problem:  # one run's, and the worker has others to train
            # Beside the run's folder, which holds a run's files alone.
            path = self._run_root / run.place / f"{run.name.replace('/', '-')}.error.txt"
            write_traceback(path, problem)
            return Outcome(
                "failed", f"unexpected {type(problem).__name__}: {one_line(problem)[:300]}; see {path}"
            )
        return Outcome("done")


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, whatever it is doing.

    Ray's own watch is in the thread that a long step keeps busy.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


class _Worker(NamedTuple):
    """An actor, and the promise of where its process is."""

    actor: Any
    where: Any


class WorkerPool:
    """Starts workers as they are needed, and gives a run to one that is idle.

    Args:
        run_root: of the study.
        size: most workers at once.
        cpus, gpus: what one of them takes; part of a GPU may be shared.
    """

    def __init__(self, run_root: Path, size: int, cpus: int, gpus: float) -> None:
        self._run_root = run_root.resolve()
        self._size = size
        # A worker that dies is not started again by Ray: the run that it had is given to another one.
        self._kind = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(StudyWorker)
        self._idle: list[_Worker] = []
        self._busy: dict[Any, tuple[list[PlannedRun], _Worker]] = {}

    @property
    def free_slots(self) -> int:
        """How many more workers may be given runs, started or not."""
        return self._size - len(self._busy)

    @property
    def is_idle(self) -> bool:
        """Whether no worker has runs to train."""
        return not self._busy

    def start(self, runs: list[PlannedRun]) -> None:
        """Give a run, or several to go in lock-step, to a worker."""
        if not self._idle:
            actor = self._kind.remote(self._run_root)
            self._idle.append(_Worker(actor, actor.where.remote()))
        worker = self._idle.pop()
        self._busy[worker.actor.train.remote(runs)] = (runs, worker)

    def finished(self, timeout: float | None) -> Iterator[tuple[PlannedRun, Outcome | str]]:
        """Wait for workers to finish, and yield their runs, each with its outcome or why its process died.

        Runs that wait for a worker are then given to idle ones, so it must be exhausted.

        Args:
            timeout: seconds to wait for the first; None: for ever.
        """
        done, _ = ray.wait(list(self._busy), timeout=timeout)
        for ended in done:
            runs, worker = self._busy.pop(ended)
            outcomes: list[Outcome] | list[str]
            try:
                outcomes = ray.get(ended)
                self._idle.append(worker)
            except RayError as error:
                outcomes = [first_line(error)] * len(runs)
            yield from zip(runs, outcomes, strict=True)
        self._hand_over()

    def _hand_over(self) -> None:
        """Move runs to idle workers where their own worker has not started yet.

        Where a machine was lost, a new worker waits for the room that an idle one takes, and would for ever.
        """
        for promise, (runs, worker) in list(self._busy.items()):
            if self._idle and not ray.wait([worker.where], timeout=0)[0]:
                del self._busy[promise]
                ray.kill(worker.actor)  # if it has begun since, the other one goes on with what it has saved
                self.start(runs)

    def stop(self) -> None:
        """Ask running workers to save and stop, kill those still starting, and wait; drop the outcomes."""
        here = ray.get_runtime_context().get_node_id()
        for _, worker in self._busy.values():
            known, _ = ray.wait([worker.where], timeout=0)
            if not known:  # it is only just starting
                ray.kill(worker.actor)
                continue
            with suppress(RayError, ProcessLookupError):
                node, process = ray.get(known[0])
                if node == here:
                    os.kill(process, signal.SIGTERM)
                else:
                    there = NodeAffinitySchedulingStrategy(node, soft=False)
                    task = ray.remote(num_cpus=0, scheduling_strategy=there)(_terminate)
                    ray.get(task.remote(process))
        while self._busy:
            list(self.finished(None))


def _terminate(process: int) -> None:
    """Ask a worker on this machine to save and stop."""
    os.kill(process, signal.SIGTERM)
