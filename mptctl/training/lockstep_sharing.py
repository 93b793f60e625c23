"""Parts that runs in lock-step share: the batch that a loader is at, and the answers of teachers to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch, BatchJob
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource, role_of

# Answers of teachers to parts of a batch, by role, digests of the teachers, and position and length of the
# part.
KnownAnswers = dict[tuple[Role, tuple[str, ...], int, int], Tensor]


class SharedLoader(Loader):
    """A loader that keeps its current batch, so that each of several runs gets it in its turn.

    A run that asks for another batch moves the loader to it; for any but the next batch the pass begins anew.

    Args:
        loader: loads the batches.
        answers: of teachers to parts of the current batch; emptied when the loader moves.
    """

    def __init__(self, loader: Loader, answers: KnownAnswers) -> None:
        super().__init__(loader.plan, loader.reason, loader.cache_dir)
        self.name, self.stats = loader.name, loader.stats
        self._answers = answers
        self._loader = loader
        self._source: Iterator[Batch] = iter(())
        self._at: tuple[int, int] | None = None
        self._held: Batch | None = None

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """See `Loader.epoch`."""
        for step in range(start_step, self.steps_per_epoch):
            yield self._shared_batch(epoch, step)

    # Never closed halfway, so an iterator will do.
    def batches(self, jobs: Iterator[BatchJob]) -> Iterator[Batch]:  # type: ignore[override]
        """The loader's own batches, which are not shared."""
        return self._loader.batches(jobs)

    def bottleneck(self) -> str:
        """See `Loader.bottleneck`."""
        return self._loader.bottleneck()

    def close(self) -> None:
        """Close the loader."""
        self._held, self._at, self._source = None, None, iter(())
        self._answers.clear()
        self._loader.close()

    def _shared_batch(self, epoch: int, step: int) -> Batch:
        """The batch of a step: the kept one where another run has asked for it, else loaded now."""
        if self._held is None or self._at != (epoch, step):
            self._answers.clear()
            if self._at != (epoch, step - 1):
                self._source = self._loader.epoch(epoch, step)
            self._held, self._at = next(self._source), (epoch, step)
        return self._held


class SharedTeachers:
    """A `TeacherSource` that gives the answers which other runs have asked for on the same batch.

    Args:
        teachers: asked where no run has asked yet.
        known: answers to the current batch, shared by all runs; `SharedLoader` empties it.

    Attributes:
        digests: of the teachers.
    """

    def __init__(self, teachers: TeacherSource, known: KnownAnswers) -> None:
        self.digests = teachers.digests
        self._teachers = teachers
        self._known = known
        self._names = {
            role: tuple(digest for name, digest in self.digests.items() if role_of(name) is role)
            for role in map(role_of, self.digests)
        }

    def open(self) -> None:
        """See `TeacherSource.open`."""
        self._teachers.open()

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """See `TeacherSource.logits`; ``batch`` is a part of the loader's current batch."""
        keys = {
            role: (role, names, batch.position, len(batch.labels))
            for role, names in self._names.items()
            if role in roles
        }
        missing = [role for role, key in keys.items() if key not in self._known]
        if missing:
            for role, logits in self._teachers.logits(batch, missing).items():
                self._known[keys[role]] = logits
        return {role: self._known[key] for role, key in keys.items()}
