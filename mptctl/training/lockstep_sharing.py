"""Parts that runs in lock-step share: the batch that a loader is at, and the answers of teachers to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch, BatchJob
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource, role_of

# Answers of teachers to parts of a batch, by role, digests of the teachers, and place and length of the part.
KnownAnswers = dict[tuple[Role, tuple[str, ...], int, int], Tensor]


class SharedLoader(Loader):
    """A loader that holds the batch it is at, so that each of several runs gets it when its turn comes.

    A run that asks for another batch moves it there: to the next one as a rule, and anywhere else by a pass
    begun anew.

    Args:
        loader: which brings the pictures.
        answers: of teachers to parts of the batch that it is at; it empties them when it goes on.
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
        """Batches as the loader makes them, not held."""
        return self._loader.batches(jobs)

    def bottleneck(self) -> str:
        """Of the loader."""
        return self._loader.bottleneck()

    def close(self) -> None:
        """Close the loader."""
        self._held, self._at, self._source = None, None, iter(())
        self._answers.clear()
        self._loader.close()

    def _shared_batch(self, epoch: int, step: int) -> Batch:
        """The batch of a step: the one held, which other runs may have asked for, or the next one."""
        if self._held is None or self._at != (epoch, step):
            self._answers.clear()
            if self._at != (epoch, step - 1):
                self._source = self._loader.epoch(epoch, step)
            self._held, self._at = next(self._source), (epoch, step)
        return self._held


class SharedTeachers:
    """A `TeacherSource` that answers from what other runs have been told about the same batch.

    Args:
        teachers: who answer, where nobody has asked yet.
        known: answers to the batch at hand, of all who share them; whoever brings the next batch empties it.

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
        """See `TeacherSource.logits`; of a part of the batch that the loader is at."""
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
