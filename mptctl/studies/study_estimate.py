"""The sizes of a study's splits, and the time that its runs take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mptctl.data.classes import split_classes
from mptctl.data.sources import SourceSize
from mptctl.data.split import Split
from mptctl.errors import NonFiniteError, UsageError
from mptctl.methods.rows import row_of
from mptctl.names import Role
from mptctl.studies.study_plan import PlannedRun
from mptctl.studies.study_split import StudySplit
from mptctl.training.estimate import Estimate, time_untrained
from mptctl.training.plan import RunSize, refuse_untrainable
from mptctl.training.torch_settings import torch_settings

# Part of the training pictures that `mptctl split` holds out by default.
VAL_FRACTION = 0.1


@dataclass(frozen=True)
class Sizes:
    """The numbers of classes and pictures of a split.

    Attributes:
        classes, num_old: classes, and the old ones among them.
        train, train_old: pictures of the training part, and those of old classes among them.
        val: pictures of the validation part.
    """

    classes: int
    num_old: int
    train: int
    train_old: int
    val: int

    def known_to(self, run: PlannedRun) -> int:
        """The number of classes that the model of a run knows."""
        return self.num_old if run.only_old_classes else self.classes

    def train_for(self, run: PlannedRun) -> int:
        """The number of training pictures of the classes that the model of a run knows."""
        return self.train_old if run.only_old_classes else self.train

    def steps_per_epoch(self, run: PlannedRun) -> int:
        """Optimizer steps of one epoch of a run; what fills no batch is left out."""
        return self.train_for(run) // run.recipe.optim.batch_size

    def steps(self, run: PlannedRun) -> int:
        """Optimizer steps of a whole run."""
        return run.recipe.optim.total_steps(self.steps_per_epoch(run))


def sizes_of_split(split: Split) -> Sizes:
    """Count the classes and pictures of an existing split."""
    num_old = split.classes.num_old
    return Sizes(
        classes=len(split.classes.names),
        num_old=num_old,
        train=len(split.indices("train")),
        train_old=len(split.indices("train", num_old)),
        val=len(split.indices("val")),
    )


def sizes_of_source(wanted: StudySplit, source: SourceSize) -> Sizes:
    """Estimate the sizes of a split that does not exist yet, as if pictures were spread evenly over classes.

    Args:
        wanted: the split that the study describes.
        source: number of classes and pictures of the source.
    """
    val_fraction = VAL_FRACTION if wanted.val_fraction is None else wanted.val_fraction
    names = [str(i) for i in range(source.classes)]
    classes = split_classes(names, old_fraction=wanted.old_fraction)
    num_classes = len(classes.names)
    both = source.train * num_classes // source.classes
    val = round(both * val_fraction)
    train = both - val
    return Sizes(
        classes=num_classes,
        num_old=classes.num_old,
        train=train,
        train_old=train * classes.num_old // num_classes,
        val=val,
    )


def refuse_untrainable_runs(
    runs: Sequence[PlannedRun], sizes: Mapping[str, Sizes], device: torch.device
) -> None:
    """Refuse runs that could not be trained, before any of them is.

    Args:
        runs: of the study.
        sizes: of the splits, by their folders.
        device: where runs compute.

    Raises:
        UsageError, NonFiniteError: there is such a run; the message names it, and what is wrong.
    """
    for run in runs:
        split = sizes[run.split_folder]
        size = RunSize(
            num_classes=split.known_to(run),
            num_old=split.num_old,
            pictures=split.train_for(run),
            held_out=split.val,
        )
        if run.is_trial and not split.val:
            raise UsageError(
                f"{run.key}: is chosen on the validation part, and this split has none; set val_fraction "
                "above 0"
            )
        try:
            refuse_untrainable(run.recipe, size, device)
        except (UsageError, NonFiniteError) as error:
            raise type(error)(f"{run.key}: {error}") from error


def estimate_planned(
    run: PlannedRun, planned: Mapping[str, PlannedRun], sizes: Sizes, steps: int, device: torch.device
) -> Estimate:
    """Estimate the time of the rest of a run.

    Args:
        run: of the study.
        planned: all runs by their keys, the teachers among them.
        sizes: of the split.
        steps: optimizer steps left.
        device: where the run computes.
    """
    asked_roles = row_of(run.method).teachers
    batch_size = run.recipe.optim.batch_size
    with torch_settings(run.recipe, device):
        step = time_untrained(run.recipe, sizes.known_to(run), device, batch_size=batch_size, trains=True)
        for teacher in [planned[key] for key in run.teachers]:
            role = Role.OLD if teacher.only_old_classes else Role.REF
            if role in asked_roles:
                known = sizes.known_to(teacher)
                step += time_untrained(teacher.recipe, known, device, batch_size=batch_size, trains=False)
    return Estimate.of(step, steps)
