"""The plan of a pass over a part of the split, its jobs, and the batches that come of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.augmentation.drawing import Transforms
from mptctl.data.augmentation.mixing import Pairs
from mptctl.data.augmentation.sampling import Draws
from mptctl.data.loading.mixed import Mixing
from mptctl.data.pictures import decode_row
from mptctl.data.plan import EpochPlan, Views, worker_share
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.names import Part
from mptctl.recipe import DataRecipe
from mptctl.recipe.transforms import Step


@dataclass(frozen=True)
class Batch:
    """Pictures on their way to the model.

    Attributes:
        images: (B, 3, H, W) normalised, on the loader's device, channels-last in memory.
        labels: (B,) int64, in class order (old classes first), on the loader's device.
        index: (B,) int64, each sample's index in the manifest, on the CPU.
        epoch: of the plan, counted from 0.
        position: where the first sample stands in the epoch's order, over all workers; the others follow it.
        mixing: the second label of each picture, and the weight of the first; None where pictures have one.
    """

    images: Tensor
    labels: Tensor
    index: Tensor
    epoch: int = 0
    position: int = 0
    mixing: Mixing | None = None

    def parts(self, count: int) -> list[Batch]:
        """The batch in so many parts, each of which knows where it stands."""
        if count == 1:
            return [self]
        parts, position = [], self.position
        columns = (self.images, self.labels, self.index, *(self.mixing or ()))
        for images, labels, index, *mixing in zip(*(x.tensor_split(count) for x in columns), strict=True):
            mixed = Mixing(*mixing) if mixing else None
            parts.append(Batch(images, labels, index, self.epoch, position, mixed))
            position += len(index)
        return parts


@dataclass(frozen=True)
class BatchJob:
    """One worker's slice of one global batch.

    Attributes:
        index: (b,) rows of the manifest.
        views: crops and flips, (b,) each; in evaluation the whole square as it is.
        epoch: of the plan, counted from 0.
        position: where the slice begins in the epoch's order, over all workers.
        transforms: operations after crop and flip, (b,) each; None without `data.transforms`, and in
            evaluation.
        pairs: how neighbours are mixed; None where they are not.
    """

    index: NDArray[np.int64]
    views: Views
    epoch: int
    position: int
    transforms: Transforms | None = None
    pairs: Pairs | None = None


@dataclass(frozen=True, eq=False)
class LoadPlan:
    """Everything that decides which pictures a loader gives, and how.

    Attributes:
        split: which pictures, and their labels.
        data: picture size, augmentation, normalisation and the loader's settings.
        part: ``train``, ``val`` or ``test``.
        batch_size: samples of a global batch, over all workers.
        seed: seed of order and augmentation.
        train: shuffled and augmented, or every sample once in the manifest's order.
        device: where batches shall be.
        num_classes: only samples of the first so many classes.
        rank, world_size: which worker this is, of how many.
        dtype: type of the pictures.

    Raises:
        UsageError: no such worker, a batch that is larger than the part or too small for the workers, or a
            size before the centre crop that is smaller than the crop; pairs that workers would have to part.
    """

    split: Split
    data: DataRecipe
    part: Part
    batch_size: int
    seed: int
    train: bool
    device: torch.device
    num_classes: int | None = None
    rank: int = 0
    world_size: int = 1
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"worker {self.rank} of {self.world_size}: no such worker")
        if self.train and self.batch_size > self.num_samples:
            raise UsageError(
                f"optim.batch_size {self.batch_size}: more than the {self.num_samples} samples of the "
                f"{self.part} part; use at most {self.num_samples}"
            )
        if self.train and self.batch_size < 2 * self.world_size:
            raise UsageError(
                f"optim.batch_size {self.batch_size}: leaves fewer than 2 samples to each of "
                f"{self.world_size} workers, and batch normalisation needs 2"
            )
        if self.train and self.data.mixes and self.batch_size % (2 * self.world_size):
            raise UsageError(
                f"optim.batch_size {self.batch_size}: data.mixup and data.cutmix mix pictures in pairs, "
                f"which {self.world_size} workers would part; take a multiple of {2 * self.world_size}"
            )
        if self.data.eval_resize is not None and self.data.eval_resize < self.data.image_size:
            raise UsageError(
                f"data.eval_resize {self.data.eval_resize}: smaller than "
                f"data.image_size {self.data.image_size}"
            )

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """(n,) rows of the manifest that one pass gives, over all workers, ascending."""
        return self.split.indices(self.part, self.num_classes)

    @property
    def num_samples(self) -> int:
        """Samples of the part, over all workers."""
        return len(self.indices)

    @property
    def steps(self) -> int:
        """Global batches of one pass: a short last one counts in evaluation only."""
        whole, rest = divmod(self.num_samples, self.batch_size)
        return whole + (1 if rest and not self.train else 0)

    @property
    def left_out(self) -> int:
        """Samples at the end of an epoch's order that make no whole batch: in training they are left out."""
        return self.num_samples - self.steps * self.batch_size if self.train else 0

    @property
    def resize(self) -> int:
        """Shorter side to which a picture is resized before the centre crop, in pixels."""
        return self.data.image_size if self.train else self.data.resized_side

    @property
    def crops_as_stored(self) -> bool:
        """True where training crops are of the picture as stored, and resized afterwards."""
        return self.train and self.data.augment == "random-resized-crop"

    @property
    def transforms(self) -> tuple[Step, ...]:
        """Steps after crop and flip; none in evaluation."""
        return self.data.transforms if self.train else ()

    @property
    def padding(self) -> int:
        """Pixels of zeros that a training window may reach over each edge; 0 without such windows."""
        return self.data.padding if self.train and self.data.augment == "pad-crop" else 0

    @property
    def resident_bytes(self) -> int:
        """Memory of all pictures of this pass, decoded, with their padding."""
        return self.num_samples * 3 * (self.data.image_size + 2 * self.padding) ** 2

    def picture(self, index: int) -> Tensor:
        """(H, W, 3) uint8 of one row of the manifest, as it is stored.

        Raises:
            DataError: its file is gone or cannot be decoded.
        """
        if self.split.manifest.is_array:
            return torch.from_numpy(np.ascontiguousarray(self.split.array[index]))
        return decode_row(self.split.manifest, index)

    def draws(self, epoch: int) -> Draws:
        """The pictures of one pass in its order, over all workers."""
        if not self.train:
            return Draws(self.indices, None)
        return EpochPlan(self.seed, self.data).draws(epoch, self.indices, self.split.labels[self.indices])

    def order(self, epoch: int) -> NDArray[np.int64]:
        """(n,) rows of the manifest in the order of one pass, over all workers."""
        return self.draws(epoch).rows

    def jobs(self, epoch: int, start_step: int = 0) -> Iterator[BatchJob]:
        """This worker's slice of each global batch from ``start_step`` on."""
        judged = DataRecipe(image_size=self.data.image_size, augment="none", flip=False)
        epoch_plan, manifest = EpochPlan(self.seed, self.data if self.train else judged), self.split.manifest
        draws = self.draws(epoch)
        # At once, since each of the draw's many operations costs a batch more than what it computes.
        pairs = epoch_plan.pairs(epoch, 0, self.steps * self.batch_size)
        for step in range(start_step, self.steps):
            whole = draws[step * self.batch_size : (step + 1) * self.batch_size]
            share = worker_share(len(whole.rows), self.rank, self.world_size)
            index, copies = whole.rows[share], None if whole.copies is None else whole.copies[share]
            position = step * self.batch_size + share.start
            if len(index) == 0:
                continue
            views = epoch_plan.views(epoch, index, manifest.heights[index], manifest.widths[index], copies)
            transforms = epoch_plan.transforms(epoch, index, copies)
            of_job = pairs and pairs[position // 2 : (position + len(index)) // 2]
            yield BatchJob(index, views, epoch, position, transforms, of_job)
