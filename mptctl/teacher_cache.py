"""Teacher logits on disk: computed once, when first needed, and shared by all runs that ask the same question.

A question is a teacher, the pictures of one pass of the epoch plan, and how they are computed; each has a folder
of its own below ``cache/teachers``, with one file an epoch. Files are filled batch by batch, by whichever run gets
to a batch first; a batch carries a digest, so that one that is missing, cut short, damaged or of other samples is
computed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loader import Batch, Loader
from mptctl.data.plan import EpochPlan
from mptctl.errors import UsageError
from mptctl.recipe import Recipe
from mptctl.teacher_store import Store, make_room, narrowed
from mptctl.teachers import TeacherLogits, TeacherSource

Role = Literal["old", "ref"]
# Keys of the data recipe that change how fast pictures come, not what is in them.
ONLY_SPEED = {"loader", "workers", "prefetch", "resident_limit_gb"}
# Changes when files are laid out, or their numbers rounded, in another way.
LAYOUT = 1


class CachedTeachers:
    """Teachers whose answers are kept: a `TeacherSource` for one loader's pass.

    Batches are computed whole, in the plan's own composition, since on a CPU the last bits of a picture's logits
    change with the batch that it is in; what a run gets is the same whether it was kept or just computed.

    Args:
        teachers: what computes.
        loader: whose batches will be asked for.
        recipe: of the run.
        roles: teachers that will be asked for.
        folder: of the cache.

    Attributes:
        digests: of the teachers.
        note: where the cache is, and how large it can become.

    Raises:
        UsageError: it would become larger than ``runtime.cache_limit_gb``.
    """

    def __init__(
        self, teachers: TeacherSource, loader: Loader, recipe: Recipe, roles: list[Role], folder: Path
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
            role: Store(
                folder,
                _question(role, teachers.digests, loader, recipe),
                len(work.indices),
                widths[role],
                self._type,
            )
            for role in roles
        }
        self._folder = folder
        self._limit = recipe.runtime.cache_limit_gb
        epochs = _epochs(recipe, loader) if work.train else 1
        self._needed = sum(store.epoch_bytes for store in self._stores.values()) * epochs
        if self._needed > self._limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {self._limit:g}: the teacher logits of this run take "
                f"{_size(self._needed)}; raise it, or train without the cache"
            )
        self.note = (
            f"teacher logits are kept in {folder}: up to {_size(self._needed)} "
            f"({recipe.runtime.cache_precision}, {epochs} {'epoch' if epochs == 1 else 'epochs'})"
        )

    def logits(self, batch: Batch, epoch: int, *, old: bool, ref: bool) -> TeacherLogits:
        """Logits of the wanted teachers for a batch of an epoch of the plan, float32, on the batch's device.

        Raises:
            ValueError: the batch is not one of the loader's.
            StorageError: the disk is full or cannot be read.
        """
        return TeacherLogits(
            self._answer("old", batch, epoch) if old else None,
            self._answer("ref", batch, epoch) if ref else None,
        )

    def _answer(self, role: Role, batch: Batch, epoch: int) -> Tensor:
        store = self._stores[role]
        index = batch.index.numpy()
        start = self._place(epoch, index)
        rows = store.read(epoch, start, index)
        if rows is None:
            with store.locked(epoch):
                rows = store.read(epoch, start, index)  # another run may have been faster
                if rows is None:
                    found = self._teachers.logits(batch, epoch, old=role == "old", ref=role == "ref")
                    logits = found.old if role == "old" else found.ref
                    assert logits is not None
                    rows = narrowed(logits.cpu().numpy(), self._type)
                    store.write(epoch, start, index, rows)
        answer = torch.from_numpy(rows)
        device = batch.images.device
        if device.type == "cuda":
            answer = answer.pin_memory().to(device, non_blocking=True)
        return answer.float()

    def _place(self, epoch: int, index: NDArray[np.int64]) -> int:
        """Where in the epoch's order a batch begins."""
        if self._epoch is None:
            make_room(self._folder, self._needed, self._limit, {s.folder for s in self._stores.values()})
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


def _question(role: Role, digests: dict[str, str], loader: Loader, recipe: Recipe) -> dict[str, Any]:
    """Everything that a teacher's logits depend on, down to the last bit."""
    work, runtime = loader.work, recipe.runtime
    gpu = work.device.type == "cuda"
    return {
        "layout": LAYOUT,
        "role": role,
        "teachers": [digest for name, digest in digests.items() if name.startswith(role)],
        "split": work.split.fingerprint,
        "part": work.part,
        "samples": work.num_samples,
        "seed": work.seed if work.train else None,
        "data": recipe.data.model_dump(mode="json", exclude=ONLY_SPEED),
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


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
