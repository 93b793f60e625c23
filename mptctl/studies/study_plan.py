"""The runs of a study: for each seed old model, reference, the ensemble's members, and the updates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.methods.rows import ROWS
from mptctl.models.run_folder import RunDir
from mptctl.names import MethodName, Role
from mptctl.recipe import Recipe, batch_differences, change_recipe
from mptctl.studies.study_file import ENSEMBLE, REF, Study, UpdateRow
from mptctl.training.request import (
    ENSEMBLE_SEED_OFFSET,
    OLD_SEED_OFFSET,
    REF_SEED_OFFSET,
    RunRequest,
    refuse_too_short,
)

# The seeds of each generation of a chain lie so far above those of the one before: beyond those of one
# generation's runs, so that no two generations begin with the same weights.
GENERATION_SEED_OFFSET = 4000


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study; travels to the processes that train.

    Attributes:
        seed: of the study; the run's own stands in its recipe.
        name: of the run, which is its folder below that of the seed; in a chain it begins with that of its
            split.
        recipe: complete.
        old, refs: names of the teachers' runs, of the same seed.
        only_old_classes: it is the old model, which knows the old classes alone.
        flat: runs lie in the run root itself, and not in a folder for each seed.
        stage: folder of its split below that of the seed, in a chain; empty where that is the seed's.
    """

    seed: int
    name: str
    recipe: Recipe
    old: str | None = None
    refs: tuple[str, ...] = ()
    only_old_classes: bool = False
    flat: bool = False
    stage: str = ""

    @property
    def place(self) -> str:
        """Folder of its split below the run root, by which splits are found."""
        return place_of(self.seed, self.stage, flat=self.flat)

    @property
    def key(self) -> str:
        """Its folder below the run root, which is also what messages call it."""
        return self._key_of(self.name)

    @property
    def method(self) -> MethodName:
        """Its method."""
        return self.recipe.method.name

    @property
    def is_update(self) -> bool:
        """Says if it is a row of the table."""
        return self.old is not None

    @property
    def teachers(self) -> tuple[str, ...]:
        """Keys of its teachers."""
        names = [self.old, *self.refs] if self.old else self.refs
        return tuple(self._key_of(name) for name in names)

    def seed_folder(self, split: Split) -> Path:
        """The folder of its seed, which its name and its teachers' begin at, as its split lies in it."""
        return split.run_root.parent if self.stage else split.run_root

    def _key_of(self, name: str) -> str:
        return name if self.flat else f"{self.seed}/{name}"

    def request(self, split: Split) -> RunRequest:
        """The request for its training, which goes on where it has begun.

        Args:
            split: that it learns from.
        """
        root = self.seed_folder(split)
        return RunRequest(
            recipe=self.recipe,
            split=split,
            folder=root / self.name,
            old=None if self.old is None else RunDir(root / self.old).best,
            refs=tuple(RunDir(root / name).best for name in self.refs),
            only_old_classes=self.only_old_classes,
        ).resume_or_restart()


def plan_study(study: Study, seeds: Sequence[int], *, flat: bool = False) -> list[PlannedRun]:
    """All runs of a study, seed after seed and generation after generation, each after its teachers.

    Args:
        study: what is asked for.
        seeds: which of them.
        flat: the runs of its one seed lie in the run root itself.
    """
    return [
        replace(run, flat=flat, stage=stage)
        for seed in seeds
        for generation, stage in enumerate(study.file.splits, start=1)
        for run in _plan_generation(study, seed, generation, stage)
    ]


def go_together(one: PlannedRun, other: PlannedRun) -> bool:
    """Says if two runs see the same batches and have the same old model, so that they can go in lock-step."""
    return (one.place, one.old, one.only_old_classes) == (
        other.place,
        other.old,
        other.only_old_classes,
    ) and not batch_differences(one.recipe, other.recipe)


def in_lockstep(ready: Sequence[PlannedRun], lockstep: int, workers: int) -> list[PlannedRun]:
    """The first of some runs, and those that go in lock-step with it in one process.

    Args:
        ready: runs that could begin.
        lockstep: most runs of one process.
        workers: that have nothing to do, among which such runs are divided.
    """
    alike = [run for run in ready if go_together(ready[0], run)]
    return alike[: min(lockstep, math.ceil(len(alike) / workers))]


def place_of(seed: int, stage: str = "", *, flat: bool = False) -> str:
    """Folder of a split below the run root of a study; empty where it lies in the run root itself."""
    return "/".join(part for part in ("" if flat else str(seed), stage) if part)


def on_machine(run: PlannedRun, threads: int, device: str) -> PlannedRun:
    """The run with what the machine decides: how many threads it takes, and where it computes.

    Args:
        run: as planned.
        threads: of torch on a CPU, and of the loader, where its recipe leaves them open.
        device: ``cpu`` or ``cuda``.
    """
    keys: dict[str, object] = {"runtime.device": device}
    if not run.recipe.data.threads:
        keys["data.threads"] = threads
    if device == "cpu" and not run.recipe.runtime.threads:
        keys["runtime.threads"] = threads
    recipe = change_recipe(run.recipe, keys, run.key)
    return replace(run, recipe=recipe)


def refuse_runs_too_short(runs: Sequence[PlannedRun], split: Split) -> None:
    """Refuse a study with a run that ends before its method begins.

    Raises:
        UsageError: names the run, the key and the value that it needs.
    """
    for run in runs:
        try:
            refuse_too_short(run.recipe, split, run.request(split).num_classes)
        except UsageError as error:
            raise UsageError(f"{run.key}: {error}") from error


def _plan_generation(study: Study, seed: int, generation: int, stage: str) -> Iterator[PlannedRun]:
    """The updates of a generation, after those of their teachers that no earlier generation has."""
    above = seed + GENERATION_SEED_OFFSET * (generation - 1)

    def seeded(recipe: Recipe, offset: int) -> Recipe:
        return change_recipe(recipe, {"runtime.seed": above + offset}, study.name)

    def named(name: str) -> str:
        return f"{stage}/{name}" if stage else name

    # Several old models of a seed differ in their recipes alone, and begin with the same weights.
    absent = {m.run for m in study.file.old_models or () if m.seeds is not None and seed not in m.seeds}
    old_models = [name for name in study.old if name not in absent]
    for name in old_models if generation == 1 else ():
        yield PlannedRun(seed, named(name), seeded(study.old[name], OLD_SEED_OFFSET), only_old_classes=True)
    members = tuple(named(f"{ENSEMBLE}/{i}") for i in range(study.file.ensemble or 0))
    references = {None: (), REF: (named(REF),), ENSEMBLE: members}
    updates = [update for update in study.file.updates if update.seeds is None or seed in update.seeds]
    wanted = [_reference(update, study.updates[update.name]) for update in updates]
    if REF in wanted:
        yield PlannedRun(seed, named(REF), seeded(study.new, REF_SEED_OFFSET))
    for place, (update, reference) in enumerate(zip(updates, wanted, strict=True)):
        # Members take long, so they come right before the first update that needs them.
        if reference == ENSEMBLE and ENSEMBLE not in wanted[:place]:
            for i, name in enumerate(members):
                yield PlannedRun(seed, name, seeded(study.new, ENSEMBLE_SEED_OFFSET + i))
        recipe = seeded(study.updates[update.name], 0)
        old = f"{generation - 1}/{update.name}"
        if generation == 1:
            old = named(study.file.old_of(update).run if study.file.old_models else old_models[0])
        yield PlannedRun(seed, named(update.name), recipe, old, references[reference])


def _reference(update: UpdateRow, recipe: Recipe) -> str | None:
    """The reference of an update; None where it neither learns from one nor begins with it."""
    learns = Role.REF in ROWS[update.method].teachers
    return update.ref if learns or recipe.method.init == "ref" else None


def total_steps(run: PlannedRun, split: Split) -> int:
    """Optimizer steps of a whole run."""
    optim, pictures = run.recipe.optim, len(split.indices("train", run.request(split).num_classes))
    return optim.total_steps(pictures // optim.batch_size)
