"""Workers of Ray's for a study: each trains what it is given, and saves and stops when it is told to."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mptctl.errors import first_line
from mptctl.studies.study_plan import PlannedRun
from mptctl.studies.study_worker import Outcome, StudyWorker


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
    def free(self) -> int:
        """Workers that have nothing to do."""
        return self._size - len(self._busy)

    @property
    def is_idle(self) -> bool:
        """Whether none has."""
        return not self._busy

    def start(self, runs: list[PlannedRun]) -> None:
        """Give a run, or several to go in lock-step, to a worker."""
        if not self._idle:
            actor = self._kind.remote(self._run_root)
            self._idle.append(_Worker(actor, actor.where.remote()))
        worker = self._idle.pop()
        self._busy[worker.actor.train.remote(runs)] = (runs, worker)

    def finished(self, timeout: float | None) -> Iterator[tuple[PlannedRun, Outcome | str]]:
        """Runs that have ended since, each with its outcome, or with why its process died.

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
        """Give runs whose worker has not begun to idle workers.

        Where a machine was lost, a new worker waits for the room that an idle one takes, and would for ever.
        """
        for promise, (runs, worker) in list(self._busy.items()):
            if self._idle and not ray.wait([worker.where], timeout=0)[0]:
                del self._busy[promise]
                ray.kill(worker.actor)  # if it has begun since, the other one goes on with what it has saved
                self.start(runs)

    def stop(self) -> None:
        """Let every run save and stop, and wait for it."""
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
