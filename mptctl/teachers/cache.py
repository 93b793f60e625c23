"""A cache of teacher logits on disk, shared by all runs with the same cache key.

The cache key holds everything that the logits depend on: the teacher, the pictures, and how both are
computed. Each key has a folder below ``cache/teachers``, with one file an epoch. A file is filled batch by
batch, by the run that needs the batch first. Each batch is stored with a digest. A batch that is missing, cut
short, damaged or of other samples fails its digest, and is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch
from mptctl.machine.device import copy_to_device
from mptctl.names import Role
from mptctl.recipe import SPEED, Recipe, list_marked_data_keys
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.cache_files import LogitFiles, round_logits
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.source import role_of

# To be raised whenever the layout of files or the rounding of logits changes.
CACHE_VERSION = 1
# Number types of cached logits, by `runtime.cache_precision`.
CACHE_TYPES: dict[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}


class CachedTeachers:
    """A `TeacherSource` that caches the logits of its teachers on disk, for the batches of one loader.

    A batch is computed as a whole, since on a CPU the last bits of a picture's logits change with the batch
    that it is in. New logits are rounded like cached ones, so a run gets the same bits either way.

    Args:
        teachers: compute the logits that are not cached.
        loader: yields the batches.
        recipe: of the run.
        roles: of the teachers that will be asked.
        budget: of disk space; the needed space is reserved here.

    Attributes:
        files: cached logits by role.

    Raises:
        UsageError: the cache needs more than ``runtime.cache_limit_gb``, or more than other runs leave of it.
    """

    def __init__(
        self,
        teachers: Teachers,
        loader: Loader,
        recipe: Recipe,
        roles: Collection[Role],
        budget: CacheBudget,
    ) -> None:
        plan = loader.plan
        self._teachers = teachers
        self.budget = budget
        # Keeps the order of the last epoch: at a million samples, computing it takes longer than a batch.
        self._order = lru_cache(maxsize=1)(plan.order)
        self._type = CACHE_TYPES[recipe.runtime.cache_precision]
        classes = plan.split.classes
        widths = {Role.OLD: classes.num_old, Role.REF: len(classes.names)}
        self.files = {
            role: LogitFiles(
                budget.folder,
                _cache_key(role, teachers.digests, loader, recipe),
                plan.num_samples,
                widths[role],
                self._type,
            )
            for role in Role
            if role in roles
        }
        steps = loader.steps_per_epoch
        epochs = math.ceil(recipe.optim.total_steps(steps) / steps) if plan.train else 1
        budget.reserve({files.folder: files.epoch_bytes * epochs for files in self.files.values()})

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Read the logits of a batch from the cache; compute and write those that are missing.

        Args:
            batch: of the loader.
            roles: some of the roles of this cache; others are left out.

        Returns:
            Logits by role, on the batch's device; see `TeacherSource.logits`.

        Raises:
            ValueError: the batch is not one of the loader's.
            RuntimeError: `CacheBudget.evict` was not called.
            StorageError: the disk is full or cannot be read.
        """
        if not self.budget.is_open:
            raise RuntimeError("the teacher cache was asked before it was opened")
        index, start = batch.index.numpy(), batch.position
        if not np.array_equal(self._order(batch.epoch)[start : start + len(index)], index):
            raise ValueError(f"a batch of {len(index)} samples is not one of epoch {batch.epoch} of the plan")
        rows = {
            role: self.files[role].read(batch.epoch, start, index) for role in self.files if role in roles
        }
        # If two runs need a batch at the same time, each computes one teacher's logits and then reads the
        # other's, so a teacher whose file is locked is skipped in the first round.
        for wait in (False, True):
            for role in rows:
                if rows[role] is None:
                    rows[role] = self._fill(role, batch, wait=wait)
        return {role: to_loop_tensor(cached, batch) for role, cached in rows.items() if cached is not None}

    def _fill(self, role: Role, batch: Batch, *, wait: bool) -> NDArray[Any] | None:
        """Compute and write the logits of a batch, unless another run has written them by now.

        Args:
            role: of the teacher.
            batch: of the loader.
            wait: until no other run has the file locked.

        Returns:
            (B, width) logits in the cache's type; None if the file is locked and ``wait`` is False.
        """
        files, where = self.files[role], (batch.epoch, batch.position, batch.index.numpy())
        with files.locked(batch.epoch, wait=wait) as is_locked:
            if not is_locked:
                return None
            rows = files.read(*where)
            if rows is None:
                logits = self._teachers.logits(batch, {role})[role]
                rows = round_logits(logits.cpu().numpy(), self._type)
                files.write(*where, rows)
            return rows


def to_loop_tensor(rows: NDArray[Any], batch: Batch) -> Tensor:
    """Return cached logits as the training loop needs them: float32, on the batch's device."""
    return copy_to_device(torch.from_numpy(rows), batch.images.device).float()


def _cache_key(role: Role, digests: dict[str, str], loader: Loader, recipe: Recipe) -> dict[str, Any]:
    """Collect everything on which the bits of a teacher's logits depend."""
    plan, runtime = loader.plan, recipe.runtime
    device = f"cpu, {torch.get_num_threads()} threads"
    if plan.device.type == "cuda":
        device = torch.cuda.get_device_name(plan.device)
    return {
        "layout": CACHE_VERSION,
        "role": role.value,
        "teachers": [digest for name, digest in digests.items() if role_of(name) is role],
        "split": [plan.split.fingerprint, plan.split.manifest.digest],
        "part": plan.part,
        "samples": plan.num_samples,
        "seed": plan.seed if plan.train else None,
        "data": recipe.data.model_dump(mode="json", exclude=list_marked_data_keys(SPEED)),
        # Decoders of JPEG files differ in grey levels, so logits of one are not those of another.
        "loader": loader.name if plan.split.manifest.is_array else [loader.name, loader.jpeg_decoder_name()],
        "batch": [plan.batch_size, plan.world_size, recipe.optim.accumulate if plan.train else 1],
        "kept as": runtime.cache_precision,
        "computed as": [runtime.teacher_precision, runtime.channels_last, runtime.deterministic],
        "device": device,
        "torch": str(torch.__version__),
    }
