"""The plan of a study: for each seed the old model, the reference, members of an ensemble, and updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mptctl.data.split import Split
from mptctl.methods.rows import row_of
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.recipe import Recipe, change_recipe
from mptctl.studies.study_file import ENSEMBLE, OLD, REF, TRIALS, Study, UpdateRow
from mptctl.training.request import ENSEMBLE_SEED_OFFSET, OLD_SEED_OFFSET, REF_SEED_OFFSET, RunRequest


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study; it is pickled for the processes that train.

    Attributes:
        seed: of the study; the seed of the run is in the recipe.
        split_folder: of the split, relative to the run root, by which splits are looked up.
        name: of the run and of its folder in the folder of the seed.
        recipe: complete.
        old, refs: names of the runs of the teachers, of the same seed.
        only_old_classes: this is an old model, which knows the old classes alone.
    """

    seed: int
    split_folder: str
    name: str
    recipe: Recipe
    old: str | None = None
    refs: tuple[str, ...] = ()
    only_old_classes: bool = False

    @property
    def key(self) -> str:
        """The folder of the run, relative to the run root; also its name in messages."""
        return self._key_of(self.name)

    @property
    def method(self) -> str:
        """The method of the recipe."""
        return self.recipe.method.name

    @property
    def is_trial(self) -> bool:
        """Tells whether this is a trial, by which a row is tuned."""
        return self.name.startswith(TRIALS)

    @property
    def is_update(self) -> bool:
        """Tells whether this is an update, a row of the table; not an old model, reference or trial."""
        return self.old is not None and not self.is_trial

    @property
    def teachers(self) -> tuple[str, ...]:
        """Keys of the teachers, the old model first."""
        names = [self.old, *self.refs] if self.old else self.refs
        return tuple(self._key_of(name) for name in names)

    def _key_of(self, name: str) -> str:
        """The key of a run of the same seed."""
        return f"{self.split_folder}/{name}".lstrip("/")

    def request(self, split: Split) -> RunRequest:
        """The request to train the run on a split; a run that has begun is resumed."""
        root = split.run_root
        return RunRequest(
            recipe=self.recipe,
            split=split,
            folder=root / self.name,
            old=None if self.old is None else RunDir(root / self.old).best,
            refs=tuple(RunDir(root / name).best for name in self.refs),
            only_old_classes=self.only_old_classes,
        ).resume_or_restart()


def plan_study(study: Study, seeds: Sequence[int]) -> list[PlannedRun]:
    """Plan all runs of a study, those of some of its seeds, seed after seed, each after its teachers."""
    return [run for seed in seeds for run in _plan_seed(study, seed)]


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


def _plan_seed(study: Study, seed: int) -> Iterator[PlannedRun]:
    """Yield the runs of one seed, each after its teachers: old models, references, ensemble and updates."""

    def with_seed(recipe: Recipe, offset: int) -> Recipe:
        return change_recipe(recipe, {"runtime.seed": seed + offset}, study.name)

    folder = study.folder_of(seed)
    # The old models of a seed differ in their recipes alone, and begin with the same weights.
    seeds_of_old = {model.run: model.seeds for model in study.file.old_models or ()}
    for name, recipe in study.old.items():
        seeds = seeds_of_old.get(name)  # without seeds, an old model is trained for every one
        if not seeds or seed in seeds:
            yield PlannedRun(seed, folder, name, with_seed(recipe, OLD_SEED_OFFSET), only_old_classes=True)
    members = tuple(f"{ENSEMBLE}/{i}" for i in range(study.file.ensemble or 0))
    refs_of: dict[str | None, tuple[str, ...]] = {None: (), REF: (REF,), ENSEMBLE: members}
    updates = [update for update in study.file.updates if update.seeds is None or seed in update.seeds]
    references = [_choose_reference(update, study.updates[update.name]) for update in updates]
    # The reference bounds the error of what is tuned, whether it is a teacher or not.
    if REF in references or any(update.tune is not None for update in updates):
        yield PlannedRun(seed, folder, REF, with_seed(study.new, REF_SEED_OFFSET))
    are_members_planned = False
    for update, reference in zip(updates, references, strict=True):
        # Members take long, so they come right before the first update that needs them.
        if reference == ENSEMBLE and not are_members_planned:
            are_members_planned = True
            for i, name in enumerate(members):
                yield PlannedRun(seed, folder, name, with_seed(study.new, ENSEMBLE_SEED_OFFSET + i))
        recipe = with_seed(study.updates[update.name], 0)
        yield PlannedRun(seed, folder, update.name, recipe, OLD, refs_of[reference])


def _choose_reference(update: UpdateRow, recipe: Recipe) -> str | None:
    """``ref`` or ``ensemble``, if the update learns from it or begins with its weights; else None."""
    learns = Role.REF in row_of(update.method).teachers
    return update.ref if learns or recipe.method.init == "ref" else None
