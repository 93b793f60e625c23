"""The plan of what a loader reads from a part of a split, its jobs, and the batches that they become."""

from __future__ import annotations

import math
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
from mptctl.data.exif import turn
from mptctl.data.loading.mixed import Mixing
from mptctl.data.manifest import FIRST_ON_SIDE
from mptctl.data.plan import EpochPlan, Views, worker_share
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.names import Part
from mptctl.recipe import DataRecipe
from mptctl.recipe.transforms import Step


@dataclass(frozen=True)
class Batch:
    """A batch of pictures and labels, as the model takes it.

    Attributes:
        images: (B, 3, H, W) normalised, on the loader's device, channels-last in memory.
        labels: (B,) int64, in class order (old classes first), on the loader's device.
        index: (B,) int64, row of each sample in the manifest, on the CPU.
        epoch: number of the pass, from 0.
        position: place of the first sample in the epoch's order, over all workers; the rest follow it.
        mixing: the second label of each picture, and the weight of the first; None where pictures have one.
    """

    images: Tensor
    labels: Tensor
    index: Tensor
    epoch: int = 0
    position: int = 0
    mixing: Mixing | None = None

    def split_into(self, count: int) -> list[Batch]:
        """Cut the batch into ``count`` batches of about one size, each with its own position in the epoch."""
        if count == 1:
            return [self]
        columns = (self.images, self.labels, self.index, *(self.mixing or ()))
        pieces = (column.tensor_split(count) for column in columns)
        parts = []
        position = self.position
        for images, labels, index, *others_and_weight in zip(*pieces, strict=True):
            mixing = Mixing(*others_and_weight) if others_and_weight else None
            parts.append(Batch(images, labels, index, self.epoch, position, mixing))
            position += len(index)
        return parts


@dataclass(frozen=True)
class BatchJob:
    """The work of a loader for one batch: one worker's slice of one global batch.

    Attributes:
        index: (b,) rows of the manifest.
        views: crop and flip of each of the b pictures; in evaluation the whole square, not flipped.
        epoch: number of the pass, from 0.
        position: place of the first sample in the epoch's order, over all workers.
        transforms: drawn operations on each of the b pictures after crop and flip; None in evaluation, and
            without `data.transforms`.
        pairs: how the pictures of each pair of neighbours are mixed; None if they are not.
    """

    index: NDArray[np.int64]
    views: Views
    epoch: int
    position: int
    transforms: Transforms | None = None
    pairs: Pairs | None = None


@dataclass(frozen=True, eq=False)
class LoadPlan:
    """Everything that decides which pictures a loader reads, in which order, and how it prepares them.

    Attributes:
        split: the pictures and their labels.
        data: picture size, augmentation, normalisation and the loader's settings.
        part: ``train``, ``val`` or ``test``.
        batch_size: samples of a global batch, over all workers.
        seed: seed of order and augmentation.
        train: True shuffles and augments; False gives every sample once in the manifest's order.
        device: device of the batches.
        num_classes: only samples of the first ``num_classes`` classes; None: of all.
        rank, world_size: number of this worker, from 0, and how many there are.
        dtype: type of the pictures in a batch.

    Raises:
        UsageError: the worker does not exist; in training, the batch is larger than the part, leaves a worker
            fewer than 2 samples, or would part a mixed pair; or ``data.eval_resize`` is below the crop.
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
        """(n,) rows of the manifest in this part and these classes, over all workers, ascending."""
        return self.split.indices(self.part, self.num_classes)

    @property
    def num_samples(self) -> int:
        """Number of samples in this part and these classes, over all workers."""
        return len(self.indices)

    @property
    def steps(self) -> int:
        """Number of global batches of one pass; a short last one counts in evaluation only."""
        batches = self.num_samples / self.batch_size
        return math.floor(batches) if self.train else math.ceil(batches)

    @property
    def left_out(self) -> int:
        """Number of samples that each training epoch leaves out, as they fill no batch; 0 in evaluation."""
        return self.num_samples - self.steps * self.batch_size if self.train else 0

    @property
    def resize(self) -> int:
        """Length to which the shorter side of a picture is resized before the centre crop, in pixels."""
        return self.data.image_size if self.train else self.data.resized_side

    @property
    def turns(self) -> bool:
        """True where pictures are turned as their EXIF data say, and there are such pictures."""
        return self.data.exif == "apply" and len(self.split.manifest.orientations) > 0

    @property
    def turned_suffix(self) -> str:
        """Part of the names of files with decoded pictures: "-turned" where pictures are turned, else ""."""
        return "-turned" if self.turns else ""

    def sizes(self, index: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return (n, 2) height and width of the pictures of rows, turned if the recipe says so."""
        manifest = self.split.manifest
        sizes = np.stack([manifest.heights[index], manifest.widths[index]], axis=1)
        if self.turns:
            is_on_side = manifest.orientations[index] >= FIRST_ON_SIDE
            sizes[is_on_side] = sizes[is_on_side, ::-1]
        return sizes

    @property
    def crops_as_stored(self) -> bool:
        """True where crops are cut from pictures as stored, then resized: random-resized-crop in training."""
        return self.train and self.data.augment == "random-resized-crop"

    @property
    def transforms(self) -> tuple[Step, ...]:
        """The recipe's steps after crop and flip; () in evaluation."""
        return self.data.transforms if self.train else ()

    @property
    def padding(self) -> int:
        """Pixels of zeros around a picture that a training window may contain; 0 except in pad-crop."""
        return self.data.padding if self.train and self.data.augment == "pad-crop" else 0

    @property
    def resident_bytes(self) -> int:
        """Bytes of all pictures of this pass, decoded, with their padding."""
        return self.num_samples * 3 * (self.data.image_size + 2 * self.padding) ** 2

    def picture(self, index: int) -> Tensor:
        """Read the picture of one row of the manifest, turned if the recipe says so: (H, W, 3) uint8.

        Raises:
            DataError: its file is gone, changed since split, or damaged.
        """
        stored = torch.from_numpy(self.split.picture(index))
        return turn(stored, self.split.manifest.orientation(index)) if self.turns else stored

    def draws(self, epoch: int) -> Draws:
        """Return the rows of one pass in its order, over all workers; a row may come several times."""
        if not self.train:
            return Draws(self.indices, None)
        return EpochPlan(self.seed, self.data).draws(epoch, self.indices, self.split.labels[self.indices])

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return (n,) rows of the manifest in the order of one pass, over all workers."""
        return self.draws(epoch).rows

    def jobs(self, epoch: int, start_step: int = 0) -> Iterator[BatchJob]:
        """Yield this worker's job for each global batch from ``start_step`` on; none for an empty slice."""
        unchanged = DataRecipe(image_size=self.data.image_size, augment="none", flip=False)
        epoch_plan = EpochPlan(self.seed, self.data if self.train else unchanged)
        draws = self.draws(epoch)
        # For all batches at once: for one batch, starting the many numpy operations would cost most.
        pairs = epoch_plan.pairs(epoch, 0, self.steps * self.batch_size)
        for step in range(start_step, self.steps):
            start = step * self.batch_size
            global_batch = draws[start : start + self.batch_size]
            share = worker_share(len(global_batch.rows), self.rank, self.world_size)
            own = global_batch[share]
            if len(own.rows) == 0:
                continue
            position = start + share.start
            heights, widths = self.sizes(own.rows).T
            views = epoch_plan.views(epoch, own.rows, heights, widths, own.copies)
            transforms = epoch_plan.transforms(epoch, own.rows, own.copies)
            job_pairs = pairs and pairs[position // 2 : (position + len(own.rows)) // 2]
            yield BatchJob(own.rows, views, epoch, position, transforms, job_pairs)
