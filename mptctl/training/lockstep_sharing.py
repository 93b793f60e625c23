"""Shares the current batch, and the teachers' logits of it, between runs in lock-step."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch, BatchJob
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource, role_of

# Teacher logits of parts of the current batch, by role, digests of the role's teachers, and position and
# length of the part.
SharedLogits = dict[tuple[Role, tuple[str, ...], int, int], Tensor]


class SharedLoader(Loader):
    """A loader that keeps its current batch, so that each of several runs gets it in its turn.

    A run that asks for the next batch moves the loader on. Any other batch makes it begin its epoch there.

    Args:
        loader: loads the batches.
        logits: of teachers, for parts of the current batch; emptied when the loader moves.
    """

    def __init__(self, loader: Loader, logits: SharedLogits) -> None:
        super().__init__(loader.plan, loader.reason, loader.cache_dir)
        self.name, self.stats = loader.name, loader.stats
        self._logits = logits
        self._loader = loader
        self._source: Iterator[Batch] = iter(())
        self._at: tuple[int, int] | None = None  # epoch, and step in it, of the current batch
        self._current: Batch | None = None

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from a step on; see `Loader.epoch`."""
        for step in range(start_step, self.steps_per_epoch):
            yield self._shared_batch(epoch, step)

    # `Loader.batches` is a generator so that it can be closed halfway; nobody does so here.
    def batches(self, jobs: Iterator[BatchJob]) -> Iterator[Batch]:  # type: ignore[override]
        """Load the batches of some jobs without sharing them."""
        return self._loader.batches(jobs)

    def describe_bottleneck(self) -> str:
        """Describe what holds the loader up; see `Loader.describe_bottleneck`."""
        return self._loader.describe_bottleneck()

    def close(self) -> None:
        """Drop the current batch and its logits, and close the loader."""
        self._current, self._at, self._source = None, None, iter(())
        self._logits.clear()
        self._loader.close()

    def _shared_batch(self, epoch: int, step: int) -> Batch:
        """Return the batch of a step; load it, and empty the shared logits, unless it is the current one."""
        if self._current is None or self._at != (epoch, step):
            self._logits.clear()
            if self._at != (epoch, step - 1):
                self._source = self._loader.epoch(epoch, step)
            self._current, self._at = next(self._source), (epoch, step)
        return self._current


class SharedTeachers:
    """A `TeacherSource` that computes the logits of each batch once for several runs.

    Args:
        teachers: compute the logits that no run has asked for yet.
        shared: logits of the current batch, shared by all runs; filled here, and emptied by `SharedLoader`.

    Attributes:
        digests: digest of each teacher's checkpoint, by name.
    """

    def __init__(self, teachers: TeacherSource, shared: SharedLogits) -> None:
        self.digests = teachers.digests
        self._teachers = teachers
        self._shared = shared
        self._digests_of = {
            role: tuple(digest for name, digest in self.digests.items() if role_of(name) is role)
            for role in map(role_of, self.digests)
        }

    def open(self) -> None:
        """Open the teachers; see `TeacherSource.open`."""
        self._teachers.open()

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Return the shared logits, and compute those that are missing; see `TeacherSource.logits`.

        Args:
            batch: a part of the loader's current batch.
            roles: of the teachers to be asked.
        """
        keys = {
            role: (role, digests, batch.position, len(batch.labels))
            for role, digests in self._digests_of.items()
            if role in roles
        }
        missing = [role for role, key in keys.items() if key not in self._shared]
        if missing:
            for role, logits in self._teachers.logits(batch, missing).items():
                self._shared[keys[role]] = logits
        return {role: self._shared[key] for role, key in keys.items()}
