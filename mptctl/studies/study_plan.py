"""The plan of a study: for each seed the old model, the reference, members of an ensemble, and updates."""

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

# The difference of seeds between two generations of a chain. It is larger than any difference within one, so
# that no two generations begin with the same weights.
GENERATION_SEED_OFFSET = 4000


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study; it is pickled for the processes that train.

    Attributes:
        seed: of the study; the seed of the run is in the recipe.
        name: of the run and of its folder in the folder of the seed; in a chain it begins with ``stage``.
        recipe: complete.
        old, refs: names of the runs of the teachers, of the same seed.
        only_old_classes: this is an old model, which knows the old classes alone.
        flat: the run root itself takes the place of the folder of the seed.
        stage: subfolder of the split in the folder of the seed, in a chain; else empty.
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
        """The folder of the split, relative to the run root, by which splits are looked up."""
        return place_of(self.seed, self.stage, flat=self.flat)

    @property
    def key(self) -> str:
        """The folder of the run, relative to the run root; also its name in messages."""
        return self._key_of(self.name)

    @property
    def method(self) -> MethodName:
        """The method of the recipe."""
        return self.recipe.method.name

    @property
    def is_update(self) -> bool:
        """Tells whether this is an update, a row of the table; others are old models and references."""
        return self.old is not None

    @property
    def teachers(self) -> tuple[str, ...]:
        """Keys of the teachers, the old model first."""
        names = [self.old, *self.refs] if self.old else self.refs
        return tuple(self._key_of(name) for name in names)

    def seed_folder(self, split: Split) -> Path:
        """The folder of the seed, found from the split that lies in it or in its subfolder ``stage``."""
        return split.run_root.parent if self.stage else split.run_root

    def _key_of(self, name: str) -> str:
        """The key of a run of the same seed."""
        return name if self.flat else f"{self.seed}/{name}"

    def request(self, split: Split) -> RunRequest:
        """The request to train the run on a split; a run that has begun is resumed."""
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
    """Plan all runs of a study, seed after seed and generation after generation, each after its teachers.

    Args:
        study: the content of the study.
        seeds: of the study, those to run.
        flat: the runs of the only seed lie in the run root itself.
    """
    return [
        replace(run, flat=flat, stage=stage)
        for seed in seeds
        for generation, stage in enumerate(study.file.splits, start=1)
        for run in _plan_generation(study, seed, generation, stage)
    ]


def go_together(one: PlannedRun, other: PlannedRun) -> bool:
    """Tells whether two runs see the same batches and have the same old model, and so can go in lock-step."""
    if one.place != other.place or one.old != other.old or one.only_old_classes != other.only_old_classes:
        return False
    return not batch_differences(one.recipe, other.recipe)


def in_lockstep(ready: Sequence[PlannedRun], lockstep: int, workers: int) -> list[PlannedRun]:
    """Choose the first of some runs, and others to train in lock-step with it; empty where there is no run.

    Args:
        ready: runs that could begin.
        lockstep: most runs of one process.
        workers: idle workers, among which the runs that could go in lock-step are divided; at least 1.
    """
    alike = [run for run in ready if go_together(ready[0], run)]
    return alike[: min(lockstep, math.ceil(len(alike) / workers))]


def place_of(seed: int, stage: str = "", *, flat: bool = False) -> str:
    """The folder of a split, relative to the run root of its study; empty for the run root itself."""
    seed_folder = "" if flat else str(seed)
    return "/".join(part for part in (seed_folder, stage) if part)


def on_machine(run: PlannedRun, threads: int, device: str) -> PlannedRun:
    """Return the run with the recipe keys that the machine decides: threads and device.

    Args:
        run: as planned.
        threads: of the loader, and on a CPU of torch; numbers in the recipe take precedence.
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
    """Refuse a run that ends before its method begins.

    Args:
        runs: of one split.
        split: that they are trained on.

    Raises:
        UsageError: there is such a run; the message names it, the recipe key and the value needed.
    """
    for run in runs:
        try:
            refuse_too_short(run.recipe, split, run.request(split).num_classes)
        except UsageError as error:
            raise UsageError(f"{run.key}: {error}") from error


def _plan_generation(study: Study, seed: int, generation: int, stage: str) -> Iterator[PlannedRun]:
    """Yield the runs of one generation, each after its teachers.

    These are the updates, their references and ensembles, and in the first generation the old models. The old
    model of an update in a later generation is the update of that name in the generation before.

    Args:
        study: the content of the study.
        seed: of the study.
        generation: from 1.
        stage: of the runs' split; see `PlannedRun`.
    """
    generation_seed = seed + GENERATION_SEED_OFFSET * (generation - 1)

    def with_seed(recipe: Recipe, offset: int) -> Recipe:
        return change_recipe(recipe, {"runtime.seed": generation_seed + offset}, study.name)

    def name_in_stage(name: str) -> str:
        return f"{stage}/{name}" if stage else name

    old_models = _old_models_of_seed(study, seed)
    if generation == 1:
        # The old models of a seed differ in their recipes alone, and begin with the same weights.
        for name in old_models:
            recipe = with_seed(study.old[name], OLD_SEED_OFFSET)
            yield PlannedRun(seed, name_in_stage(name), recipe, only_old_classes=True)
    members = tuple(name_in_stage(f"{ENSEMBLE}/{i}") for i in range(study.file.ensemble or 0))
    runs_of_reference = {None: (), REF: (name_in_stage(REF),), ENSEMBLE: members}
    updates = [update for update in study.file.updates if update.seeds is None or seed in update.seeds]
    references = [_choose_reference(update, study.updates[update.name]) for update in updates]
    if REF in references:
        yield PlannedRun(seed, name_in_stage(REF), with_seed(study.new, REF_SEED_OFFSET))
    members_planned = False
    for update, reference in zip(updates, references, strict=True):
        # Members take long, so they come right before the first update that needs them.
        if reference == ENSEMBLE and not members_planned:
            members_planned = True
            for i, name in enumerate(members):
                yield PlannedRun(seed, name, with_seed(study.new, ENSEMBLE_SEED_OFFSET + i))
        recipe = with_seed(study.updates[update.name], 0)
        old = f"{generation - 1}/{update.name}"
        if generation == 1:
            old = name_in_stage(study.file.old_of(update).run if study.file.old_models else old_models[0])
        yield PlannedRun(seed, name_in_stage(update.name), recipe, old, runs_of_reference[reference])


def _old_models_of_seed(study: Study, seed: int) -> list[str]:
    """The names of the runs of old models that a seed has; some old models have some seeds only."""
    absent = {
        model.run
        for model in study.file.old_models or ()
        if model.seeds is not None and seed not in model.seeds
    }
    return [name for name in study.old if name not in absent]


def _choose_reference(update: UpdateRow, recipe: Recipe) -> str | None:
    """``ref`` or ``ensemble``, if the update learns from it or begins with its weights; else None."""
    learns = Role.REF in ROWS[update.method].teachers
    return update.ref if learns or recipe.method.init == "ref" else None


def total_steps(run: PlannedRun, split: Split) -> int:
    """Optimizer steps of a whole run on an existing split."""
    optim = run.recipe.optim
    pictures = len(split.indices("train", run.request(split).num_classes))
    return optim.total_steps(pictures // optim.batch_size)
