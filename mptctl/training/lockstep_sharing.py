"""What a run is assembled from: parts of its own, or parts that runs in lock-step have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.batch import Batch
from mptctl.data.loading.part import BatchJob
from mptctl.names import Role
from mptctl.recipe import RuntimeRecipe
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import TeacherSource, role_of
from mptctl.training.validate import Validator

Loaders = tuple[Loader, Loader | None]
# Answers of teachers to parts of a batch, by role, digests of the teachers, and place and length of the part.
KnownAnswers = dict[tuple[Role, tuple[str, ...], int, int], Tensor]


class OwnParts:
    """Parts that a run has to itself.

    Attributes:
        shared: whether other runs have them, too, and take turns with this one.
    """

    shared: ClassVar[bool] = False

    def teachers(self, paths: tuple[Path | None, ...], build: Callable[[], Teachers]) -> Teachers:
        """The teachers as models, by the paths of the old model and of the references."""
        return build()

    def loaders(self, build: Callable[[], Loaders]) -> Loaders:
        """Loaders of the training part and of the validation part."""
        return build()

    def budget(self, folder: Path, runtime: RuntimeRecipe) -> CacheBudget:
        """Of the answers that are kept below a folder."""
        return CacheBudget(folder, runtime)

    def answers(self, teachers: TeacherSource) -> TeacherSource:
        """What the method asks."""
        return teachers

    def validator(self, build: Callable[[], Validator]) -> Validator:
        """What looks at the model after each epoch."""
        return build()


class SharedParts(OwnParts):
    """Parts of several runs on the same batches with the same old model, each of which is made once."""

    shared = True

    def __init__(self) -> None:
        self._models: dict[tuple[Path | None, ...], Teachers] = {}
        self._loaders: tuple[SharedLoader, Loader | None] | None = None
        self._budget: CacheBudget | None = None
        self._validator: Validator | None = None

    def teachers(self, paths: tuple[Path | None, ...], build: Callable[[], Teachers]) -> Teachers:
        """Those of the first run that has the same ones."""
        if paths not in self._models:
            self._models[paths] = build()
        return self._models[paths]

    def loaders(self, build: Callable[[], Loaders]) -> Loaders:
        """Those of the first run."""
        if self._loaders is None:
            train, val = build()
            self._loaders = SharedLoader(train), val
        return self._loaders

    def budget(self, folder: Path, runtime: RuntimeRecipe) -> CacheBudget:
        """One for all, since a process claims room in one piece."""
        self._budget = self._budget or super().budget(folder, runtime)
        return self._budget

    def open(self) -> None:
        """Make room for the answers of all runs once more: one that failed on its way has left more to be made."""
        if self._budget is not None:
            self._budget.evict()

    def answers(self, teachers: TeacherSource) -> TeacherSource:
        """The same, where no other run has asked for them yet."""
        assert self._loaders is not None, "teachers are asked of a loader's batches"
        return SharedTeachers(teachers, self._loaders[0].answers)

    def validator(self, build: Callable[[], Validator]) -> Validator:
        """That of the first run, which knows the old model's answers from its first pass on."""
        self._validator = self._validator or build()
        return self._validator


class SharedLoader(Loader):
    """A loader that holds the batch it is at, so that each of several runs gets it when its turn comes.

    A run that asks for another batch moves it there: to the next one as a rule, and anywhere else by a pass begun anew.

    Args:
        loader: which brings the pictures.

    Attributes:
        answers: of teachers to parts of the batch it is at.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader.plan, loader.reason, loader.cache_dir)
        self.name, self.stats = loader.name, loader.stats
        self.answers: KnownAnswers = {}
        self._loader = loader
        self._source: Iterator[Batch] = iter(())
        self._at: tuple[int, int] | None = None
        self._held: Batch | None = None

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """See `Loader.epoch`."""
        for step in range(start_step, self.steps_per_epoch):
            yield self._batch(epoch, step)

    def batches(self, jobs: Iterator[BatchJob]) -> Iterator[Batch]:  # type: ignore[override]  # never closed halfway
        """As the loader makes them, and not held."""
        return self._loader.batches(jobs)

    def bottleneck(self) -> str:
        """Of the loader."""
        return self._loader.bottleneck()

    def close(self) -> None:
        """Close the loader."""
        self._held, self._at, self._source = None, None, iter(())
        self.answers.clear()
        self._loader.close()

    def _batch(self, epoch: int, step: int) -> Batch:
        if self._held is None or self._at != (epoch, step):
            self.answers.clear()
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
