"""Teacher logits on disk: computed once, when first needed, and shared by all runs that ask the same question.

A question is a teacher, the pictures of one pass of the epoch plan, and how they are computed; each has a folder
of its own below ``cache/teachers``, with one file an epoch. Files are filled batch by batch, by whichever run gets
to a batch first; a batch carries a digest, so that one that is missing, cut short, damaged or of other samples is
computed again.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.batch import Batch
from mptctl.data.plan import EpochPlan
from mptctl.recipe import SPEED, Recipe, keys_of
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.cache_files import LogitFiles, narrow
from mptctl.teachers.source import TeacherLogits, TeacherSource

Role = Literal["old", "ref"]
# Changes when files are laid out, or their numbers rounded, in another way.
CACHE_VERSION = 1


class CachedTeachers:
    """Teachers whose answers are kept: a `TeacherSource` for one loader's passes.

    Batches are computed whole, in the plan's own composition, since on a CPU the last bits of a picture's logits
    change with the batch that it is in; what a run gets is the same whether it was kept or just computed.

    Args:
        teachers: what computes.
        loader: whose batches will be asked for.
        recipe: of the run.
        roles: teachers that will be asked for.
        room: of the run, in the cache's folder.

    Attributes:
        digests: of the teachers.

    Raises:
        UsageError: the run would keep more than ``runtime.cache_limit_gb``, or than other runs leave of it.
    """

    def __init__(
        self, teachers: TeacherSource, loader: Loader, recipe: Recipe, roles: list[Role], room: CacheBudget
    ) -> None:
        work = loader.work
        self.digests = teachers.digests
        self._teachers = teachers
        self._work = work
        self._plan = EpochPlan(work.seed, work.data)
        self._epoch: int | None = None
        self._type = np.dtype(np.float16 if recipe.runtime.cache_precision == "fp16" else np.float32)
        widths = {"old": work.split.classes.num_old, "ref": len(work.split.classes.names)}
        self._stores = {
            role: LogitFiles(
                room.folder,
                _cache_key(role, teachers.digests, loader, recipe),
                len(work.indices),
                widths[role],
                self._type,
            )
            for role in roles
        }
        epochs = _epochs(recipe, loader) if work.train else 1
        self._needed = {store.folder: store.epoch_bytes * epochs for store in self._stores.values()}
        self._room = room
        room.claim(self._needed)

    def logits(self, batch: Batch, epoch: int, *, old: bool, ref: bool) -> TeacherLogits:
        """Logits of the wanted teachers for a batch of an epoch of the plan, float32, on the batch's device.

        Raises:
            ValueError: the batch is not one of the loader's.
            StorageError: the disk is full or cannot be read.
        """
        index = batch.index.numpy()
        start = self._place(epoch, index)
        asked: dict[Role, bool] = {"old": old, "ref": ref}
        rows = {role: self._stores[role].read(epoch, start, index) for role in asked if asked[role]}
        # Of two runs that need a batch at the same time, each computes one teacher while the other computes the other.
        for wait in (False, True):
            for role in rows:
                if rows[role] is None:
                    rows[role] = self._fill(role, batch, epoch, start, index, wait=wait)
        answers = {role: _on_device(found, batch) for role, found in rows.items() if found is not None}
        return TeacherLogits(answers.get("old"), answers.get("ref"))

    def _fill(
        self, role: Role, batch: Batch, epoch: int, start: int, index: NDArray[np.int64], *, wait: bool
    ) -> NDArray[Any] | None:
        """Compute and keep what is not there; None where another run is at it and shall not be waited for."""
        store = self._stores[role]
        with store.locked(epoch, wait=wait) as held:
            if not held:
                return None
            rows = store.read(epoch, start, index)  # another run may have been faster
            if rows is None:
                found = self._teachers.logits(batch, epoch, old=role == "old", ref=role == "ref")
                logits = found.old if role == "old" else found.ref
                assert logits is not None
                rows = narrow(logits.cpu().numpy(), self._type)
                store.write(epoch, start, index, rows)
            return rows

    def _place(self, epoch: int, index: NDArray[np.int64]) -> int:
        """Where in the epoch's order a batch begins."""
        if self._epoch is None:
            self._room.make(self._needed)
        if epoch != self._epoch:
            work = self._work
            self._order = self._plan.order(epoch, work.indices) if work.train else work.indices
            self._position = np.zeros(len(work.split.manifest), dtype=np.int64)
            self._position[self._order] = np.arange(len(self._order))
            self._epoch = epoch
        start = int(self._position[index[0]])
        if not np.array_equal(self._order[start : start + len(index)], index):
            raise ValueError(f"a batch of {len(index)} samples is not one of epoch {epoch} of the plan")
        return start


def _on_device(rows: NDArray[Any], batch: Batch) -> Tensor:
    answer = torch.from_numpy(rows)
    device = batch.images.device
    if device.type == "cuda":
        answer = answer.pin_memory().to(device, non_blocking=True)
    return answer.float()


def _cache_key(role: Role, digests: dict[str, str], loader: Loader, recipe: Recipe) -> dict[str, Any]:
    """Everything that a teacher's logits depend on, down to the last bit."""
    work, runtime = loader.work, recipe.runtime
    gpu = work.device.type == "cuda"
    return {
        "layout": CACHE_VERSION,
        "role": role,
        "teachers": [digest for name, digest in digests.items() if name.startswith(role)],
        "split": work.split.fingerprint,
        "part": work.part,
        "samples": work.num_samples,
        "seed": work.seed if work.train else None,
        "data": recipe.data.model_dump(mode="json", exclude=keys_of("data", SPEED)),
        "loader": loader.name,
        "batch": [work.batch_size, work.world_size, recipe.optim.accumulate if work.train else 1],
        "kept as": runtime.cache_precision,
        "computed as": [runtime.teacher_precision, runtime.channels_last, runtime.deterministic],
        "device": torch.cuda.get_device_name(work.device)
        if gpu
        else f"cpu, {torch.get_num_threads()} threads",
        "torch": str(torch.__version__),
    }


def _epochs(recipe: Recipe, loader: Loader) -> int:
    if recipe.optim.max_steps is None:
        return recipe.optim.epochs
    return min(recipe.optim.epochs, -(-recipe.optim.max_steps // loader.steps_per_epoch))
