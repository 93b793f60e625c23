"""The time and disk that a study takes: from estimates of its runs, and the bytes of weights and caches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mptctl.data.classes import split_classes
from mptctl.data.sources import SourceSize
from mptctl.data.split import Split
from mptctl.errors import NonFiniteError, UsageError
from mptctl.methods.rows import row_of
from mptctl.names import Role, Source
from mptctl.studies.study_plan import PlannedRun
from mptctl.studies.study_split import StudySplit
from mptctl.training.estimate import Estimate, SizedModel, estimate_run, run_bytes
from mptctl.training.plan import RunSize, refuse_untrainable
from mptctl.training.torch_settings import torch_settings

# Part of the training pictures that `mptctl split` holds out by default.
VAL_FRACTION = 0.1
BYTES_OF_LOGIT = {"fp32": 4, "fp16": 2}


@dataclass(frozen=True)
class Sizes:
    """The numbers of classes and pictures of a split.

    Attributes:
        classes, num_old: classes, and the old ones among them.
        train, val, test: pictures of each part, taken to be spread evenly over the classes.
        in_files: each picture is a file of its own, which the resident loader decodes once.
    """

    classes: int
    num_old: int
    train: int
    val: int
    test: int
    in_files: bool

    def known_to(self, run: PlannedRun) -> int:
        """The number of classes that the model of a run knows."""
        return self.num_old if run.only_old_classes else self.classes

    def steps_per_epoch(self, run: PlannedRun) -> int:
        """Optimizer steps of one epoch of a run, at least 1."""
        return max(1, self.train * self.known_to(run) // self.classes // run.recipe.optim.batch_size)

    def steps(self, run: PlannedRun) -> int:
        """Optimizer steps of a whole run."""
        return run.recipe.optim.total_steps(self.steps_per_epoch(run))


def sizes_of_split(split: Split) -> Sizes:
    """Count the classes and pictures of an existing split."""
    train, val, test = (len(split.indices(part)) for part in ("train", "val", "test"))
    in_files = not split.manifest.is_array
    return Sizes(len(split.classes.names), split.classes.num_old, train, val, test, in_files)


def sizes_of_source(wanted: StudySplit, kind: Source, source: SourceSize) -> Sizes:
    """Estimate the sizes of a split that does not exist yet.

    Args:
        wanted: the split that the study describes.
        kind: of its source.
        source: number of classes and pictures of the source.
    """
    val_fraction = VAL_FRACTION if wanted.val_fraction is None else wanted.val_fraction
    names = [str(i) for i in range(source.classes)]
    classes = split_classes(names, old_fraction=wanted.old_fraction)
    num_classes = len(classes.names)
    train, test = (pictures * num_classes // source.classes for pictures in (source.train, source.test))
    val = round(train * val_fraction)
    return Sizes(num_classes, classes.num_old, train - val, val, test, kind == "imagefolder")


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
            steps_per_epoch=split.steps_per_epoch(run),
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
    roles, reference_keys = row_of(run.method).teachers, list(run.teachers)
    num_classes = sizes.known_to(run)
    teachers: list[SizedModel] = []
    if run.old is not None:
        old_key = reference_keys.pop(0)  # the old model is the first of the teachers
        if Role.OLD in roles:
            teachers.append(SizedModel(planned[old_key].recipe, sizes.num_old))
    if Role.REF in roles:
        teachers += [SizedModel(planned[key].recipe, num_classes) for key in reference_keys]
    with torch_settings(run.recipe, device):
        return estimate_run(SizedModel(run.recipe, num_classes), teachers, steps=steps, device=device)


def disk_bytes(runs: Sequence[PlannedRun], sizes: Mapping[str, Sizes]) -> int:
    """Bytes that runs will write at most: their folders, decoded pictures, and caches of teachers' logits.

    Args:
        runs: to be trained.
        sizes: of the splits, by their folders.
    """
    folders = 0
    # Runs of one split and picture size share the decoded pictures; of one split and teacher, its logits.
    pictures: dict[tuple[str, int], int] = {}
    logits: dict[str, dict[str, int]] = {}
    limits: dict[str, float] = {}
    for run in runs:
        sizes_of_run = sizes[run.split_folder]
        folders += run_bytes(run.recipe, sizes_of_run.known_to(run))
        pictures[run.split_folder, run.recipe.data.image_size] = _decoded_bytes(run, sizes_of_run)
        logits.setdefault(run.split_folder, {}).update(_logit_bytes(run, sizes_of_run))
        limits[run.split_folder] = run.recipe.runtime.cache_limit_gb * 1e9
    caches = sum(min(limit, sum(logits[folder].values())) for folder, limit in limits.items())
    return folders + sum(pictures.values()) + int(caches)


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist yet."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def _decoded_bytes(run: PlannedRun, sizes: Sizes) -> int:
    """Bytes of the pictures that the resident loader keeps decoded on disk; 0 where it does not."""
    data = run.recipe.data
    pictures = 3 * data.image_size**2 * (sizes.train + sizes.val + sizes.test)
    is_resident = data.augment != "random-resized-crop" and data.loader in ("auto", "resident")
    fits = pictures < data.resident_limit_gb * 1e9
    return pictures if sizes.in_files and is_resident and fits else 0


def _logit_bytes(run: PlannedRun, sizes: Sizes) -> dict[str, int]:
    """Bytes of the logits that a run caches, by the names of its teachers; empty without a cache."""
    runtime, roles = run.recipe.runtime, row_of(run.method).teachers
    if not runtime.cache_teachers or not roles:
        return {}
    bytes_a_class = sizes.steps(run) * run.recipe.optim.batch_size * BYTES_OF_LOGIT[runtime.cache_precision]
    cached = {run.old or "": sizes.num_old * bytes_a_class}
    if Role.REF in roles:
        cached[",".join(run.refs)] = sizes.classes * bytes_a_class
    return cached
