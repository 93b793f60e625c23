"""What all loaders share: the jobs of a pass, its statistics, its state, and the count of what was seen."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from mptctl.data.loading.batch import Batch
from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.errors import CheckpointError

if TYPE_CHECKING:
    from mptctl.data.loading.batch import Batch


# Below this part of the time, waiting for data is not worth a setting.
WAIT_WORTH_SAYING = 0.02
# What to do about waiting, by loader.
ADVICE = {
    "resident": "leave it a core (runtime.threads), or compute on a GPU",
    "threaded": "raise data.threads, or let DALI read (data.loader=dali)",
    "dali-cpu": "raise data.threads or data.prefetch; mptctl bench loader --tune finds the best",
    "dali-mixed": "set data.threads, data.prefetch and data.hw_decoder_load; mptctl bench loader --tune finds them",
}


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


class PlannedLoader:
    """Base of the loaders: they differ only in how a job becomes a batch."""

    name = "planned"

    def __init__(self, work: LoadPlan, reason: str) -> None:
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

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
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

    def batch(self, job: BatchJob, images: Tensor) -> Batch:
        """Join pictures with their labels and index."""
        from mptctl.data.loading.batch import Batch

        index = torch.from_numpy(job.index)
        labels = self._labels[index]
        if self.work.device.type == "cuda":
            labels = labels.pin_memory().to(self.work.device, non_blocking=True)
        return Batch(images, labels, index, job.epoch, job.position)


class Loader(Protocol):
    """One pass after another over a part of the split, following the epoch plan exactly."""

    name: str  # "resident", "dali-cpu", "dali-mixed" or "threaded"
    reason: str  # why this loader was chosen, one sentence for the log
    steps_per_epoch: int  # global batches of one pass
    num_samples: int  # samples of this part, over all workers
    stats: LoaderStats  # images, time that the consumer waited, queue depth; reset() begins anew
    work: LoadPlan  # what is read: part, plan and batch size

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Batches of one pass from ``start_step`` on: this worker's slice of each global batch.

        A short last batch is dropped in training, never in evaluation, where a worker whose slice of
        it is empty gets no batch for that step.
        """
        ...

    def state(self, epoch: int, step: int) -> LoaderState:
        """Where a run stands before ``step`` of ``epoch``, with what it must match to go on from there."""
        ...

    def bottleneck(self) -> str:
        """What held the last passes up, and which setting moves it, in one line."""
        ...

    def close(self) -> None:
        """Stop threads and free memory; safe to call twice."""
        ...
