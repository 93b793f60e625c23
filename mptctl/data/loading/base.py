"""The base of all loaders: the pass over a plan, what a kind of loader says of itself, and its statistics."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from mptctl.data.augmentation.drawing import Transforms
from mptctl.data.augmentation.operations import erase, operate
from mptctl.data.loading.mixed import Mixing, mix_labels, mix_pictures
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.pictures import Normalisation, channels_first, single_threaded
from mptctl.machine.facts import usable_cores
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.names import LoaderName, Progress, tell_nobody

# A loader that decodes before the first batch calls it so.
DECODING = "decoding pictures"
# Pieces that a batch is cut into, for each thread: few enough to cost nothing, enough to share work evenly.
_PIECES = 4
# Below this part of the time, waiting for data is not worth a setting.
WAIT_WORTH_SAYING = 0.02


class LoaderStats:
    """The speed at which pictures came, and the time that the model waited for them."""

    def __init__(self) -> None:
        self.images = 0
        self.wait_seconds = 0.0
        self._begin = self._end = time.perf_counter()

    def count(self, images: int, wait_seconds: float) -> None:
        """Count one batch: its pictures, and how long it was waited for."""
        self.images += images
        self.wait_seconds += wait_seconds
        self._end = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time from the making of the loader to the last batch."""
        return self._end - self._begin

    @property
    def images_per_second(self) -> float:
        """Pictures a second that the consumer took."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """Part of the time, 0 to 1, that the consumer waited for data."""
        return min(1.0, self.wait_seconds / self.seconds) if self.seconds > 0 else 0.0


class Loader(ABC):
    """Brings the pictures of a plan, one pass after another, in exactly its order.

    A kind of loader says of itself what stands first here, and turns jobs into batches; `LOADERS` names all
    kinds.

    Args:
        plan: what is read.
        reason: why this loader was chosen, one sentence for the log.
        cache_dir: folder for decoded pictures.
        progress: told of pictures by a loader that decodes before the first batch.

    Attributes:
        name: in the log and in the rows of ``mptctl bench loader``.
        recipe_name: what ``data.loader`` calls it.
        advice: what to do where the model waits for it.
        devices: types of the devices that it brings batches to.
        in_memory: whether it decodes every picture before the first batch, at one size, and keeps it.
        steps_per_epoch: global batches of one pass.
        num_samples: samples of this part, over all workers.
        stats: pictures, and time that the consumer waited.
    """

    name: str
    recipe_name: ClassVar[LoaderName]
    advice: ClassVar[str]
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    in_memory: ClassVar[bool] = False

    @classmethod
    def refuses(cls, plan: LoadPlan) -> str | None:
        """Say why it cannot serve a plan here, and what to do, to the recipe's user; None: it can."""
        return None

    @classmethod
    def declines(cls, plan: LoadPlan) -> str | None:
        """Say in few words why another kind should serve a plan where the choice is free; None: it suits."""
        return None

    @classmethod
    def suits(cls, plan: LoadPlan) -> str:
        """Say in few words why it is the best choice for a plan that it does not decline."""
        return "nothing better can serve"

    @classmethod
    def jpeg_decoder(cls) -> str:
        """Name what decodes standard JPEG files here."""
        return jpeg_decoder().name

    def __init__(
        self, plan: LoadPlan, reason: str, cache_dir: Path = Path(), progress: Progress = tell_nobody
    ) -> None:
        self.plan = plan
        self.reason = reason
        self.cache_dir = cache_dir
        self.steps_per_epoch = plan.steps
        self.num_samples = plan.num_samples
        self.stats = LoaderStats()
        self._normalise = Normalisation(plan.data, plan.device)
        self._labels = torch.from_numpy(plan.split.labels)
        self.threads = plan.data.threads or usable_cores()
        # Its threads begin with the first work that they get.
        self.pool = ThreadPoolExecutor(
            self.threads, thread_name_prefix="mptctl-loader", initializer=single_threaded
        )

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Batches of one pass from ``start_step`` on: this worker's slice of each global batch.

        A short last batch is dropped in training, never in evaluation, where a worker whose slice of
        it is empty gets no batch for that step.
        """
        batches = self.batches(self.plan.jobs(epoch, start_step))
        try:
            while True:
                begin = time.perf_counter()
                batch = next(batches, None)
                if batch is None:
                    return
                self.stats.count(len(batch.labels), time.perf_counter() - begin)
                yield batch
        finally:
            batches.close()

    @abstractmethod
    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Turn jobs into batches, in order."""

    def bottleneck(self) -> str:
        """Say in one line what held the last passes up, and which setting moves it."""
        stats = self.stats
        speed = f"{self.name} brought {stats.images_per_second:,.0f} images/s"
        if stats.wait_share <= WAIT_WORTH_SAYING:
            return f"{speed}; waiting for data {100 * stats.wait_share:.1f} %: the model sets the pace"
        return f"{speed}; waiting for data {100 * stats.wait_share:.0f} %: {self.advice}"

    def close(self) -> None:
        """Stop threads and free memory; safe to call twice."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def normalise(self, pictures: Tensor) -> Tensor:
        """(B, S, S, 3) uint8 on the device -> (B, S, S, 3) float32, by the recipe's mean and deviation."""
        return self._normalise(pictures)

    def prepare(self, pictures: Tensor, transforms: Transforms | None) -> Tensor:
        """(n, S, S, 3) uint8 on the device -> float32: the recipe's transforms and normalisation."""
        if transforms is None:
            return self.normalise(pictures)
        ready = self.normalise(operate(pictures, transforms))
        erase(ready, transforms)
        return ready

    def start_preparing(self, pictures: Tensor, transforms: Transforms | None) -> Callable[[], Tensor]:
        """Begin to `prepare` a batch, on a CPU in threads where there are transforms.

        Returns:
            A function that waits for the prepared batch and returns it.
        """
        if transforms is None or pictures.device.type != "cpu":
            return partial(self.prepare, pictures, transforms)
        whole, ready = transforms, torch.empty(pictures.shape, dtype=torch.float32)

        def fill(rows: slice) -> None:
            ready[rows] = self.prepare(pictures[rows], whole[rows])

        pieces = [self.pool.submit(fill, rows) for rows in self.pieces(len(pictures))]

        def finish() -> Tensor:
            for piece in pieces:
                piece.result()
            return ready

        return finish

    def pieces(self, rows: int) -> list[slice]:
        """Parts of a batch for the threads."""
        step = max(1, rows // (_PIECES * self.threads))
        return [slice(start, start + step) for start in range(0, rows, step)]

    def batch(self, job: BatchJob, pictures: Tensor) -> Batch:
        """Mix (B, S, S, 3) normalised pictures where pairs are mixed, and join labels and index."""
        index = torch.from_numpy(job.index)
        labels, mixing = self._labels[index], None
        if job.pairs is not None:
            pictures = mix_pictures(pictures, job.pairs)
            labels, mixing = mix_labels(labels, job.pairs)
            mixing = Mixing(*map(self._moved, mixing))
        images = channels_first(pictures.to(self.plan.dtype))
        return Batch(images, self._moved(labels), index, job.epoch, job.position, mixing)

    def _moved(self, column: Tensor) -> Tensor:
        if self.plan.device.type == "cuda":
            column = column.pin_memory().to(self.plan.device, non_blocking=True)
        return column
