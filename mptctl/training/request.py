"""The request for a training run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mptctl.data.split import Split
from mptctl.methods.rows import refuse_if_never_on
from mptctl.models.ownership import Existing, existing_by_flags
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe

# Added to an update's seed for the old model, the reference and an ensemble's first member, so that none of
# them begins with the update's weights. Larger than seeds that people type.
OLD_SEED_OFFSET = 2000
REF_SEED_OFFSET = 1000
ENSEMBLE_SEED_OFFSET = 3000
# More members of an ensemble would reach the seeds of a chain's next generation.
MOST_MEMBERS = 1000


@dataclass(frozen=True)
class RunRequest:
    """A run that somebody asked for.

    Attributes:
        recipe: what to do, complete.
        split: the data.
        folder: where the run is written.
        old: checkpoint of the old model; wanted by most methods, and used in validation where it is given.
        refs: checkpoints of the references.
        only_old_classes: train the old model, which knows the old classes alone.
        resume: go on with what is in the folder.
        overwrite: throw away the run that is in the folder; what no run wrote stays.
        cache_dir: where decoded pictures are kept; None: beside the split.
    """

    recipe: Recipe
    split: Split
    folder: Path
    old: Path | None = None
    refs: tuple[Path, ...] = ()
    only_old_classes: bool = False
    resume: bool = False
    overwrite: bool = False
    cache_dir: Path | None = None

    @property
    def existing(self) -> Existing:
        """The fate of what the folder holds already."""
        return existing_by_flags(resume=self.resume, overwrite=self.overwrite)

    @property
    def teachers(self) -> tuple[Path, ...]:
        """Checkpoints of all teachers."""
        return tuple(self.refs) if self.old is None else (self.old, *self.refs)

    @property
    def num_classes(self) -> int:
        """The number of classes that the trained model knows."""
        return self.split.classes.num_old if self.only_old_classes else len(self.split.classes.names)

    def continued(self) -> RunRequest:
        """The request that resumes this run where its folder has a checkpoint, and else starts it anew."""
        folder = RunDir(self.folder)
        begun = folder.last.exists() or folder.previous.exists()
        return replace(self, resume=begun, overwrite=not begun)


def refuse_too_short(recipe: Recipe, split: Split, num_classes: int) -> None:
    """Refuse a run that ends before its method begins; no picture, no teacher and no torch is needed for it.

    Args:
        recipe: of the run.
        split: the data.
        num_classes: how many classes the trained model knows.

    Raises:
        UsageError: names the key that ends the run too early, and the value that it needs.
    """
    pictures = len(split.indices("train", num_classes))
    refuse_if_never_on(recipe, pictures // recipe.optim.batch_size)
