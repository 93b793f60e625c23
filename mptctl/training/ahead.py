"""Teachers that are asked one batch ahead, by a thread beside the one that trains."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.machine.facts import usable_cores
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource

Answers = Future[dict[Role, Tensor]]


def has_spare_core(device: torch.device, workers: int) -> bool:
    """Tell whether a run computes on a CPU and leaves a core to another thread.

    Args:
        device: of the run.
        workers: processes of the run, each with as many threads as this one.
    """
    return device.type == "cpu" and torch.get_num_threads() * workers < usable_cores()


class TeachersAhead:
    """A `TeacherSource` that computes its answers to the next batch while the student learns from this one.

    The answers are the same bits: it computes them with as many threads as the student's thread would.

    Args:
        teachers: that answer.
        accumulate: parts of a batch, each answered by itself.

    Attributes:
        digests: of the teachers.
    """

    def __init__(self, teachers: TeacherSource, accumulate: int) -> None:
        self.digests = teachers.digests
        self._teachers = teachers
        self._accumulate = accumulate
        self._answers: dict[int, Answers] = {}
        # One thread, since caches of answers are not made for several; torch computes in it with as many
        # threads as here.
        self._pool = ThreadPoolExecutor(
            1, "mptctl-teachers", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
        )

    def open(self) -> None:
        """Do nothing: the run has opened the teachers."""

    def close(self) -> None:
        """End the thread, also where not all batches were taken."""
        self._pool.shutdown(cancel_futures=True)

    def over(self, batches: Iterator[Batch], roles: Collection[Role]) -> Iterator[Batch]:
        """The same batches; before one is given, the teachers begin to answer the next one."""
        batch = next(batches, None)
        self._answers = self._begin(batch, roles)
        while batch is not None:
            following = next(batches, None)
            answers = self._begin(following, roles)
            yield batch
            batch, self._answers = following, answers

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Answers to a part of the batch that `over` gave last; see `TeacherSource.logits`."""
        answers = self._answers.pop(batch.position).result()
        return {role: logits for role, logits in answers.items() if role in roles}

    def _begin(self, batch: Batch | None, roles: Collection[Role]) -> dict[int, Answers]:
        """Start the answers to each part of a batch; they are kept by the part's position."""
        parts = [] if batch is None else batch.parts(self._accumulate)
        return {part.position: self._pool.submit(self._teachers.logits, part, roles) for part in parts}
