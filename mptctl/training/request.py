"""The request for a training run: its recipe, data, folder and teachers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.split import Split
from mptctl.models.ownership import Existing, existing_by_flags
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe

# Added to an update's seed, they give the seeds of the old model, of the reference and of an ensemble's first
# member, so that none of these begins with the update's weights. Larger than seeds that people type.
OLD_SEED_OFFSET = 2000
REF_SEED_OFFSET = 1000
ENSEMBLE_SEED_OFFSET = 3000
# Arbitrary: far more than anybody trains.
MOST_MEMBERS = 1000


@dataclass(frozen=True)
class RunRequest:
    """The request for a training run.

    Attributes:
        recipe: complete, with every flag applied.
        split: the data.
        folder: where the run is written.
        old: checkpoint of the old model. Most methods need it; validation counts flips where it is given.
        refs: checkpoints of the references.
        only_old_classes: train an old model, which knows the old classes alone.
        resume: go on from the last checkpoint in the folder.
        overwrite: remove the run that is in the folder; files that no run wrote stay.
        cache_dir: folder of decoded pictures and of teacher logits; None: beside the split.
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
        """What is done with a run that the folder holds already."""
        return existing_by_flags(resume=self.resume, overwrite=self.overwrite)

    @property
    def teachers(self) -> tuple[Path, ...]:
        """Checkpoints of all teachers, the old model first."""
        return tuple(self.refs) if self.old is None else (self.old, *self.refs)

    @property
    def num_classes(self) -> int:
        """The number of classes that the trained model knows."""
        return self.split.classes.num_old if self.only_old_classes else len(self.split.classes.names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes that the trained model knows, in the order of its logits."""
        return self.split.classes.names[: self.num_classes]

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """(C,) training pictures of each class that the trained model knows."""
        labels = self.split.labels[self.split.indices("train", self.num_classes)]
        return np.bincount(labels, minlength=self.num_classes)

    @property
    def val_samples(self) -> tuple[int, int]:
        """The number of validation samples of these classes, and how many of them are of old classes."""
        labels = self.split.labels[self.split.indices("val", self.num_classes)]
        return len(labels), int((labels < self.split.classes.num_old).sum())

    def resume_or_restart(self) -> RunRequest:
        """Return this request with `resume` set if its folder has a checkpoint, else with `overwrite` set."""
        folder = RunDir(self.folder)
        begun = folder.last.exists() or folder.previous.exists()
        return replace(self, resume=begun, overwrite=not begun)
