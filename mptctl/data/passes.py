"""What all loaders share: the jobs of a pass, its statistics, its state, and the count of what was seen."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.manifest import Part
from mptctl.data.plan import EpochPlan, Views, worker_share
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, DataError, UsageError
from mptctl.recipe import DataRecipe

if TYPE_CHECKING:
    from mptctl.data.loader import Batch


# Below this part of the time, waiting for data is not worth a setting.
WAIT_WORTH_SAYING = 0.02
# What to do about waiting, by loader.
ADVICE = {
    "resident": "leave it a core (runtime.threads), or compute on a GPU",
    "threaded": "raise data.workers, or let DALI read (data.loader=dali)",
    "dali-cpu": "raise data.workers or data.prefetch; mptctl bench loader --tune finds the best",
    "dali-mixed": "set data.workers, data.prefetch and data.hw_decoder_load; mptctl bench loader --tune finds them",
}


@dataclass(frozen=True)
class Job:
    """One worker's slice of one global batch.

    Attributes:
        index: (b,) rows of the manifest.
        views: training crops and flips, (b,) each; None in evaluation.
    """

    index: NDArray[np.int64]
    views: Views | None


@dataclass(frozen=True, eq=False)
class Pass:
    """Everything that decides which pictures a loader gives, and how; see `make_loader`."""

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
        if self.data.eval_resize is not None and self.data.eval_resize < self.data.image_size:
            raise UsageError(
                f"data.eval_resize {self.data.eval_resize}: smaller than data.image_size {self.data.image_size}"
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
    def resize(self) -> int:
        """Shorter side to which a picture is resized before the centre crop, in pixels."""
        return self.data.image_size if self.train else self.data.eval_resize or self.data.image_size

    @property
    def crops_as_stored(self) -> bool:
        """Whether training crops are of the picture as stored, and resized afterwards."""
        return self.train and self.data.augment == "random-resized-crop"

    @property
    def resident_bytes(self) -> int:
        """Memory of all pictures of this pass, decoded, with their padding."""
        pad = self.data.padding if self.train and self.data.augment == "pad-crop" else 0
        return self.num_samples * 3 * (self.data.image_size + 2 * pad) ** 2

    def jobs(self, epoch: int, start_step: int = 0) -> Iterator[Job]:
        """This worker's slice of each global batch from ``start_step`` on."""
        plan, manifest = EpochPlan(self.seed, self.data), self.split.manifest
        order = plan.order(epoch, self.indices) if self.train else self.indices
        for step in range(start_step, self.steps):
            whole = order[step * self.batch_size : (step + 1) * self.batch_size]
            index = whole[worker_share(len(whole), self.rank, self.world_size)]
            if len(index) == 0:
                continue
            views = (
                plan.views(epoch, index, manifest.heights[index], manifest.widths[index])
                if self.train
                else None
            )
            yield Job(index, views)


class LoaderStats:
    """How fast pictures came, and how long the model waited for them."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin counting anew."""
        self.images = 0
        self.batches = 0
        self.wait_seconds = 0.0
        self._depth = 0
        self._begin = self._end = time.perf_counter()

    def count(self, images: int, wait_seconds: float, depth: int) -> None:
        """Count one batch: its pictures, how long it was waited for, how many stood ready behind it."""
        self.images += images
        self.batches += 1
        self.wait_seconds += wait_seconds
        self._depth += depth
        self._end = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time from `reset` to the last batch."""
        return self._end - self._begin

    @property
    def images_per_second(self) -> float:
        """Pictures a second that the consumer took."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """Part of the time, 0 to 1, that the consumer waited for data."""
        return min(1.0, self.wait_seconds / self.seconds) if self.seconds > 0 else 0.0

    @property
    def queue_depth(self) -> float:
        """Mean number of batches that stood ready when one was taken."""
        return self._depth / self.batches if self.batches else 0.0


@dataclass(frozen=True)
class LoaderState:
    """Where a run stands in its data, and what must be the same for it to go on from there."""

    seed: int
    epoch: int
    step: int
    batch_size: int
    num_samples: int
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return asdict(self)

    def check(self, saved: Mapping[str, Any]) -> None:
        """Compare with what a checkpoint says; epoch and step may differ.

        Raises:
            CheckpointError: names every field that differs.
        """
        mine = asdict(self)
        fields = [key for key in mine if key not in ("epoch", "step")]
        changed = [f"{key}: {saved.get(key)} -> {mine[key]}" for key in fields if saved.get(key) != mine[key]]
        if changed:
            raise CheckpointError(
                f"cannot resume with other data ({'; '.join(changed)}); restore them, or start a new run"
            )


class SeenMask:
    """Counts every sample of an evaluation, so that none is missing and none is there twice."""

    def __init__(self, num_rows: int) -> None:
        """``num_rows``: rows of the manifest."""
        self.counts = torch.zeros(num_rows, dtype=torch.int32)

    def add(self, index: Tensor) -> None:
        """Count the samples of a batch; ``index`` is (B,) int64 on the CPU."""
        self.counts.index_add_(0, index, torch.ones(len(index), dtype=torch.int32))

    def check(self, expected: NDArray[np.int64]) -> None:
        """Compare with the (n,) rows that were to be seen; sum ``counts`` over all workers before.

        Raises:
            DataError: how many are missing or were seen more than once, or did not belong there.
        """
        due = torch.zeros_like(self.counts)
        due[torch.from_numpy(expected)] = 1
        missing = int((self.counts < due).sum())
        extra = int((self.counts > due).sum())
        if missing or extra:
            raise DataError(
                f"evaluation saw {missing} samples not at all and {extra} too often or without need, "
                f"of {len(expected)}; its result is not valid"
            )


class PlannedLoader:
    """Base of the loaders: they differ only in how a job becomes a batch."""

    name = "planned"

    def __init__(self, work: Pass, reason: str) -> None:
        self.work = work
        left_out = work.num_samples - work.steps * work.batch_size if work.train else 0
        self.reason = f"{self.name} loader: {reason}" + (
            f"; the last {left_out} samples of each epoch's order make no whole batch and are left out"
            if left_out
            else ""
        )
        self.steps_per_epoch = work.steps
        self.num_samples = work.num_samples
        self.stats = LoaderStats()
        mean, std = (torch.tensor(v, dtype=torch.float32) for v in (work.data.mean, work.data.std))
        # For a row of pixels at once: on a CPU, vectors of three are five times slower.
        self._offset = (-mean / std).repeat(work.data.image_size).to(work.device)
        self._scale = (1 / (255 * std)).repeat(work.data.image_size).to(work.device)
        self._labels = torch.from_numpy(work.split.labels)

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Batches of one pass; see `Loader.epoch`."""
        batches = self.batches(self.work.jobs(epoch, start_step))
        try:
            while True:
                begin = time.perf_counter()
                batch = next(batches, None)
                if batch is None:
                    return
                self.stats.count(len(batch.labels), time.perf_counter() - begin, self.ready())
                yield batch
        finally:
            batches.close()

    def batches(self, jobs: Iterator[Job]) -> Generator[Batch, None, None]:
        """Turn jobs into batches, in order."""
        raise NotImplementedError

    def ready(self) -> int:
        """Batches that stand ready now."""
        return 0

    def state(self, epoch: int, step: int) -> LoaderState:
        """Where a run stands; see `Loader.state`."""
        work = self.work
        return LoaderState(work.seed, epoch, step, work.batch_size, work.num_samples, work.split.fingerprint)

    def bottleneck(self) -> str:
        """What held the last passes up, and which setting moves it, in one line."""
        stats = self.stats
        speed = f"{self.name} brought {stats.images_per_second:,.0f} images/s"
        if stats.wait_share <= WAIT_WORTH_SAYING:
            return f"{speed}; waiting for data {100 * stats.wait_share:.1f} %: the model sets the pace"
        return f"{speed}; waiting for data {100 * stats.wait_share:.0f} %: {ADVICE[self.name]}"

    def close(self) -> None:
        """Stop threads and free memory; safe to call twice."""

    def normalise(self, pictures: Tensor) -> Tensor:
        """(B, H, W, 3) uint8 on the device -> (B, 3, H, W) normalised, channels-last in memory."""
        rows = pictures.reshape(-1, len(self._scale)).to(torch.float32)
        images = rows.mul_(self._scale).add_(self._offset).view(pictures.shape)
        return images.to(self.work.dtype).permute(0, 3, 1, 2)

    def batch(self, job: Job, images: Tensor) -> Batch:
        """Join pictures with their labels and index."""
        from mptctl.data.loader import Batch

        index = torch.from_numpy(job.index)
        labels = self._labels[index]
        if self.work.device.type == "cuda":
            labels = labels.pin_memory().to(self.work.device, non_blocking=True)
        return Batch(images, labels, index)
