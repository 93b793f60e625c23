"""The cost of a study: time from the estimates of its runs, disk from their weights and caches."""

from __future__ import annotations

import heapq
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mptctl.data.classes import split_classes
from mptctl.data.sources import SourceSize
from mptctl.data.split import Split
from mptctl.methods.rows import ROWS
from mptctl.names import Role, Source
from mptctl.studies.study_plan import PlannedRun, in_lockstep
from mptctl.studies.study_split import StudySplit
from mptctl.training.estimate import Estimate, Sized, estimate_run, lockstep_seconds, run_bytes
from mptctl.training.torch_settings import torch_settings

# Part of the training pictures that split holds out where the study does not say how many.
VAL_FRACTION = 0.1
BYTES_OF_LOGIT = {"fp32": 4, "fp16": 2}


@dataclass(frozen=True)
class Sizes:
    """The classes and pictures of a split, counted; of folders, pictures are decoded once and kept.

    Attributes:
        classes, num_old: classes, and the old ones among them.
        train, val, test: pictures of each part, evenly over the classes.
        in_files: whether each picture is a file of its own.
    """

    classes: int
    num_old: int
    train: int
    val: int
    test: int
    in_files: bool

    def known_to(self, run: PlannedRun) -> int:
        """Classes that a run's model knows."""
        return self.num_old if run.only_old_classes else self.classes

    def steps_per_epoch(self, run: PlannedRun) -> int:
        """Optimizer steps of one epoch of a run."""
        return max(1, self.train * self.known_to(run) // self.classes // run.recipe.optim.batch_size)

    def steps(self, run: PlannedRun) -> int:
        """Optimizer steps of a whole run."""
        return run.recipe.optim.total_steps(self.steps_per_epoch(run))


def sizes_of_split(split: Split) -> Sizes:
    """The sizes of a split that is there."""
    train, val, test = (len(split.indices(part)) for part in ("train", "val", "test"))
    in_files = not split.manifest.is_array
    return Sizes(len(split.classes.names), split.classes.num_old, train, val, test, in_files)


def sizes_of_source(wanted: StudySplit, kind: Source, source: SourceSize) -> Sizes:
    """The sizes of a split that is still to be made."""
    held_out = VAL_FRACTION if wanted.val_fraction is None else wanted.val_fraction
    names = [str(i) for i in range(source.classes)]
    classes = split_classes(names, old_fraction=wanted.old_fraction, class_fraction=wanted.class_fraction)
    taken = len(classes.names)
    train, test = (pictures * taken // source.classes for pictures in (source.train, source.test))
    val = round(train * held_out)
    return Sizes(taken, classes.num_old, train - val, val, test, kind == "imagefolder")


def estimate_planned(
    run: PlannedRun, planned: Mapping[str, PlannedRun], sizes: Sizes, steps: int, device: torch.device
) -> Estimate:
    """Estimates the rest of a run.

    Args:
        run: of the study.
        planned: all runs by their keys, its teachers among them.
        sizes: of its split.
        steps: that are left.
        device: where it computes.
    """
    wanted, keys = ROWS[run.method].teachers, list(run.teachers)
    teachers: list[Sized] = []
    if run.old is not None:
        old = keys.pop(0)  # it stands first among the teachers, and knows what is old to the run
        if Role.OLD in wanted:
            teachers.append((planned[old].recipe, sizes.num_old))
    if Role.REF in wanted:
        teachers += [(planned[key].recipe, sizes.known_to(run)) for key in keys]
    # Its part of the validation pictures, once in each epoch.
    seen = sizes.val * sizes.known_to(run) // sizes.classes * math.ceil(steps / sizes.steps_per_epoch(run))
    with torch_settings(run.recipe, device):
        return estimate_run(
            (run.recipe, sizes.known_to(run)), teachers, steps=steps, validated=seen, device=device
        )


def disk_bytes(runs: Sequence[PlannedRun], sizes: Mapping[str, Sizes]) -> int:
    """Bytes that the runs will write at most: their folders, decoded pictures, and teachers' answers.

    Args:
        runs: that are not there yet.
        sizes: of the splits, by their places.
    """
    folders = sum(run_bytes(run.recipe, sizes[run.place].known_to(run)) for run in runs)
    pictures = {
        (run.place, run.recipe.data.image_size): _decoded_bytes(run, sizes[run.place]) for run in runs
    }
    answers = {key: size for run in runs for key, size in _answer_bytes(run, sizes[run.place]).items()}
    limits = {run.place: run.recipe.runtime.cache_limit_gb * 1e9 for run in runs}
    kept = sum(
        min(limit, sum(size for (of, _), size in answers.items() if of == place))
        for place, limit in limits.items()
    )
    return folders + sum(pictures.values()) + int(kept)


def free_bytes(folder: Path) -> int:
    """Free bytes where a folder is, or will be."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(there).free


def makespan(
    runs: Sequence[PlannedRun],
    seconds: Mapping[str, float],
    parallel: int,
    *,
    lockstep: int = 1,
    teachers: Mapping[str, float] | None = None,
) -> float:
    """Seconds to the end of all runs, when so many processes train at a time, each run after its teachers.

    Args:
        runs: in the order in which they are preferred.
        seconds: of each run, by its key.
        parallel: processes.
        lockstep: most runs of one process, which ask their teachers once.
        teachers: of the seconds of each run those in which its teachers answer.
    """
    waiting, done, now = list(runs), set[str](), 0.0
    running: list[tuple[float, list[str]]] = []
    planned = {run.key for run in runs}
    while waiting or running:
        ready = [run for run in waiting if planned.intersection(run.teachers) <= done]
        if ready and len(running) < parallel:
            together = in_lockstep(ready, lockstep, parallel - len(running))
            waiting = [run for run in waiting if run not in together]
            keys = [run.key for run in together]
            asked = [(teachers or {}).get(key, 0.0) for key in keys]
            taken = lockstep_seconds([seconds[key] for key in keys], asked)
            heapq.heappush(running, (now + taken, keys))
        else:
            now, ended = heapq.heappop(running)
            done.update(ended)
    return now


def _decoded_bytes(run: PlannedRun, sizes: Sizes) -> int:
    """Pictures that the resident loader keeps decoded below the seed's folder."""
    data = run.recipe.data
    pictures = 3 * data.image_size**2 * (sizes.train + sizes.val + sizes.test)
    resident = data.augment != "random-resized-crop" and data.loader in ("auto", "resident")
    return pictures if sizes.in_files and resident and pictures < data.resident_limit_gb * 1e9 else 0


def _answer_bytes(run: PlannedRun, sizes: Sizes) -> dict[tuple[str, str], int]:
    """Answers of each teacher that a run keeps, by split and teacher; all updates of a split share them."""
    runtime, wanted = run.recipe.runtime, ROWS[run.method].teachers
    if not runtime.cache_teachers or not wanted:
        return {}
    views = sizes.steps(run) * run.recipe.optim.batch_size * BYTES_OF_LOGIT[runtime.cache_precision]
    kept = {(run.place, run.old or ""): sizes.num_old * views}
    if Role.REF in wanted:
        kept[run.place, ",".join(run.refs)] = sizes.classes * views
    return kept
