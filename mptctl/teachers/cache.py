"""Teacher logits on disk: computed once, when first needed, and shared by all runs with the same cache key.

A cache key is a teacher, the pictures of one pass of the epoch plan, and how they are computed; each has a
folder of its own below ``cache/teachers``, with one file an epoch. Files are filled batch by batch, by
whichever run gets to a batch first; a batch carries a digest, so that one that is missing, cut short, damaged
or of other samples is computed again.
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
from mptctl.names import Role
from mptctl.recipe import SPEED, Recipe, keys_of
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.cache_files import LogitFiles, narrow
from mptctl.teachers.source import TeacherSource, role_of

# Changes when files are laid out, or their numbers rounded, in another way.
CACHE_VERSION = 1
# Number types by the names of `runtime.cache_precision`.
CACHE_TYPES: dict[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}


class CachedTeachers:
    """Teachers whose answers are kept: a `TeacherSource` for one loader's passes.

    Batches are computed whole, in the plan's own composition, since on a CPU the last bits of a picture's
    logits change with the batch that it is in; what a run gets is the same whether it was kept or just
    computed.

    Args:
        teachers: what computes.
        loader: whose batches will be asked for.
        recipe: of the run.
        roles: teachers that will be asked for.
        budget: of the run, in the cache's folder.

    Attributes:
        digests: of the teachers.

    Raises:
        UsageError: the run would keep more than ``runtime.cache_limit_gb``, or than other runs leave of it.
    """

    def __init__(
        self,
        teachers: TeacherSource,
        loader: Loader,
        recipe: Recipe,
        roles: Collection[Role],
        budget: CacheBudget,
    ) -> None:
        plan = loader.plan
        self.digests = teachers.digests
        self._teachers = teachers
        self._budget = budget
        # Of the epoch that was asked for last: at a million samples an order takes longer than a batch.
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

    def open(self) -> None:
        """Make room on the disk, which may cost idle runs what they kept; see `CacheBudget.evict`."""
        self._teachers.open()
        self._budget.evict()

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """See `TeacherSource.logits`; on the batch's device.

        Raises:
            ValueError: the batch is not one of the loader's.
            RuntimeError: room was never made; call `open` first.
            StorageError: the disk is full or cannot be read.
        """
        if not self._budget.is_open:
            raise RuntimeError("the teacher cache was asked before it was opened")
        index, start = batch.index.numpy(), batch.position
        if not np.array_equal(self._order(batch.epoch)[start : start + len(index)], index):
            raise ValueError(f"a batch of {len(index)} samples is not one of epoch {batch.epoch} of the plan")
        rows = {
            role: self.files[role].read(batch.epoch, start, index) for role in self.files if role in roles
        }
        # Of two runs that need a batch at the same time, each computes one teacher while the other computes
        # the other.
        for wait in (False, True):
            for role in rows:
                if rows[role] is None:
                    rows[role] = self._fill(role, batch, wait=wait)
        return {role: on_device(kept, batch) for role, kept in rows.items() if kept is not None}

    def _fill(self, role: Role, batch: Batch, *, wait: bool) -> NDArray[Any] | None:
        """Compute and keep what is not there; None where another run is at it and shall not be waited for."""
        files, where = self.files[role], (batch.epoch, batch.position, batch.index.numpy())
        with files.locked(batch.epoch, wait=wait) as held:
            if not held:
                return None
            rows = files.read(*where)  # another run may have been faster
            if rows is None:
                logits = self._teachers.logits(batch, {role})[role]
                rows = narrow(logits.cpu().numpy(), self._type)
                files.write(*where, rows)
            return rows


def on_device(rows: NDArray[Any], batch: Batch) -> Tensor:
    """Kept logits as the loop gets them: float32, where the batch is."""
    answer = torch.from_numpy(rows)
    device = batch.images.device
    if device.type == "cuda":
        answer = answer.pin_memory().to(device, non_blocking=True)
    return answer.float()


def _cache_key(role: Role, digests: dict[str, str], loader: Loader, recipe: Recipe) -> dict[str, Any]:
    """Everything that a teacher's logits depend on, down to the last bit."""
    plan, runtime = loader.plan, recipe.runtime
    gpu = plan.device.type == "cuda"
    return {
        "layout": CACHE_VERSION,
        "role": role.value,
        "teachers": [digest for name, digest in digests.items() if role_of(name) is role],
        "split": plan.split.fingerprint,
        "part": plan.part,
        "samples": plan.num_samples,
        "seed": plan.seed if plan.train else None,
        "data": recipe.data.model_dump(mode="json", exclude=keys_of("data", SPEED)),
        "loader": loader.name,
        "batch": [plan.batch_size, plan.world_size, recipe.optim.accumulate if plan.train else 1],
        "kept as": runtime.cache_precision,
        "computed as": [runtime.teacher_precision, runtime.channels_last, runtime.deterministic],
        "device": torch.cuda.get_device_name(plan.device)
        if gpu
        else f"cpu, {torch.get_num_threads()} threads",
        "torch": str(torch.__version__),
    }
