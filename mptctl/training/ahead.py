"""Computes the teachers' logits one batch ahead, in a thread beside the one that trains."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.machine.facts import usable_cores
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource

PendingLogits = Future[dict[Role, Tensor]]


def has_spare_core(device: torch.device, workers: int) -> bool:
    """Tell whether a run computes on a CPU and its workers' threads leave a core of the machine idle.

    Args:
        device: where the run computes.
        workers: number of processes of the run, each with as many threads as this one.
    """
    return device.type == "cpu" and torch.get_num_threads() * workers < usable_cores()


class TeachersAhead:
    """A `TeacherSource` that computes logits of the next batch while the student learns from this one.

    The logits are bitwise those of ``teachers``: the thread computes with the same number of torch threads.

    Args:
        teachers: compute the logits.
        accumulate: number of parts that a batch is cut into; logits are computed part by part.
    """

    def __init__(self, teachers: TeacherSource, accumulate: int) -> None:
        self._teachers = teachers
        self._accumulate = accumulate
        # Of the current batch, by the position of its parts.
        self._pending: dict[int, PendingLogits] = {}
        # One thread, since a cache of logits cannot be used by several.
        self._pool = ThreadPoolExecutor(
            1, "mptctl-teachers", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
        )

    def close(self) -> None:
        """Cancel what has not begun, wait for what has, and end the thread."""
        self._pool.shutdown(cancel_futures=True)

    def over(self, batches: Iterator[Batch], roles: Collection[Role]) -> Iterator[Batch]:
        """Yield each batch once the logits of the batch after it have been started.

        Args:
            batches: of an epoch.
            roles: of the teachers to be asked.
        """
        batch = next(batches, None)
        self._pending = self._start(batch, roles)
        while batch is not None:
            following = next(batches, None)
            pending = self._start(following, roles)
            yield batch
            batch, self._pending = following, pending

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Wait for the logits of a part of the batch that `over` yielded last, and hand them out once.

        Args:
            batch: the part; `over` has started its logits.
            roles: some of the roles that `over` was given.
        """
        by_role = self._pending.pop(batch.position).result()
        return {role: logits for role, logits in by_role.items() if role in roles}

    def _start(self, batch: Batch | None, roles: Collection[Role]) -> dict[int, PendingLogits]:
        """Start computing logits of each part of a batch; by the part's position, {} without a batch."""
        parts = [] if batch is None else batch.split_into(self._accumulate)
        return {part.position: self._pool.submit(self._teachers.logits, part, roles) for part in parts}
