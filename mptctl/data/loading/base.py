"""The base class of all loaders: one pass over a plan, preparation of batches, and speed statistics."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from mptctl.data.ahead import after
from mptctl.data.augmentation.drawing import Transforms
from mptctl.data.augmentation.operations import erase, operate
from mptctl.data.loading.mixed import Mixing, mix_labels, mix_pictures
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.pictures import Normalisation, channels_first, use_one_thread
from mptctl.machine.device import copy_to_device
from mptctl.machine.facts import usable_cores
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.names import LoaderName, Progress, tell_nobody

# Told to `progress` by a loader that decodes before the first batch.
DECODING = "decoding pictures"
# Slices of a batch per thread: few enough to cost nothing, enough to share work evenly.
_SLICES = 4
# Share of the time up to which waiting for data is not worth a change of settings.
WAIT_WORTH_SAYING = 0.02


class LoaderStats:
    """Counts the pictures that a loader brought, and the time that the model waited for them."""

    def __init__(self) -> None:
        self.images = 0
        self.wait_seconds = 0.0
        self._begin = self._end = time.perf_counter()

    def count(self, images: int, wait_seconds: float) -> None:
        """Count one batch: the number of its pictures, and the seconds that the model waited for it."""
        self.images += images
        self.wait_seconds += wait_seconds
        self._end = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds from the creation of the loader to the last batch."""
        return self._end - self._begin

    @property
    def images_per_second(self) -> float:
        """Pictures a second that the model took; 0 before the first batch."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the time, 0 to 1, that the model waited for data; 0 before the first batch."""
        return min(1.0, self.wait_seconds / self.seconds) if self.seconds > 0 else 0.0


class Loader(ABC):
    """Reads the pictures of a plan, pass after pass, in exactly the order of the plan.

    A subclass states its name, when it can serve a plan, and how it turns jobs into batches. `LOADERS` lists
    all subclasses.

    Args:
        plan: which pictures are read, and how.
        reason: why this loader was chosen, one sentence for the log.
        cache_dir: folder for decoded pictures.
        progress: called with the number of decoded pictures, by a loader that decodes all of them first.

    Attributes:
        name: name of the loader in the log and in the rows of ``mptctl bench loader``.
        recipe_name: name of the loader in ``data.loader`` of a recipe.
        advice: what the user can do where the model waits for this loader.
        devices: types of the devices on which the loader can put batches.
        in_memory: True where the loader decodes all pictures when it is opened, and keeps them.
        most_threads: threads at most where `data.threads` is 0; as many as usable cores, if these are fewer.
        steps_per_epoch: global batches of one pass.
        stats: number of pictures so far, and time that the model waited for them.
        normalise: turns (B, S, S, 3) uint8 pictures on the device into float32, by the recipe's mean and
            standard deviation.
    """

    name: str
    recipe_name: ClassVar[LoaderName]
    advice: ClassVar[str]
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    in_memory: ClassVar[bool] = False
    most_threads: ClassVar[int] = sys.maxsize

    @classmethod
    def why_not(cls, plan: LoadPlan, *, is_asked: bool) -> str | None:
        """Say in few words why the loader does not serve a plan here; None if it does.

        Args:
            plan: which pictures are read, and how.
            is_asked: True where the recipe names the loader: then only what is impossible counts.
        """
        return None

    @classmethod
    def jpeg_decoder_name(cls) -> str:
        """Return the name of the program that decodes standard JPEG files for this loader."""
        return jpeg_decoder().name

    def __init__(
        self, plan: LoadPlan, reason: str, cache_dir: Path = Path(), progress: Progress = tell_nobody
    ) -> None:
        self.plan = plan
        self.reason = reason
        self.cache_dir = cache_dir
        self.progress = progress
        self.steps_per_epoch = plan.steps
        self.stats = LoaderStats()
        self._is_open = False
        self.normalise = Normalisation(plan.data, plan.device)
        self._labels = torch.from_numpy(plan.split.labels)
        self.threads = plan.data.threads or min(usable_cores(), self.most_threads)
        # Starts no thread before the first work is submitted.
        self.pool = ThreadPoolExecutor(
            self.threads, thread_name_prefix="mptctl-loader", initializer=use_one_thread
        )

    def open(self) -> None:
        """Read what all passes need; the first pass does so too. To be called again has no effect.

        Raises:
            DataError: a picture is gone, changed or damaged.
            StorageError: the folder for decoded pictures cannot be written.
        """
        if not self._is_open:
            self.read_ahead()
            self._is_open = True
            self.stats = LoaderStats()

    def read_ahead(self) -> None:  # noqa: B027  # most loaders read nothing ahead
        """Read what all passes need: nothing, unless a subclass says otherwise."""

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Yield this worker's slice of each global batch of one pass, and count the wait for it in ``stats``.

        Training drops a short last batch. Evaluation keeps it, and a worker whose slice of it is empty gets
        no batch for that step.

        Args:
            epoch: number of the pass, from 0.
            start_step: first global batch.
        """
        self.open()
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
        """Yield the batch of each job, in order."""

    def describe_bottleneck(self) -> str:
        """Say in one line how fast pictures came, and what to change if the model waited for them."""
        stats = self.stats
        speed = f"{self.name} brought {stats.images_per_second:,.0f} images/s"
        if stats.wait_share <= WAIT_WORTH_SAYING:
            return f"{speed}; waiting for data {100 * stats.wait_share:.1f} %: the model sets the pace"
        return f"{speed}; waiting for data {100 * stats.wait_share:.0f} %: {self.advice}"

    def close(self) -> None:
        """Stop the threads and free the memory; safe to call twice."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def prepare(self, pictures: Tensor, transforms: Transforms | None) -> Tensor:
        """Apply drawn transforms and normalise.

        Args:
            pictures: (n, S, S, 3) uint8, on the device; stay as they are.
            transforms: drawn for these n pictures; None: normalise only.

        Returns:
            (n, S, S, 3) float32.
        """
        if transforms is None:
            return self.normalise(pictures)
        ready = self.normalise(operate(pictures, transforms))
        erase(ready, transforms)
        return ready

    def start_preparing(
        self, pictures: Tensor, transforms: Transforms | None, finish: Callable[[Tensor], Batch]
    ) -> Callable[[], Batch]:
        """Begin to `prepare` a batch, and return a function that waits for it.

        Only a batch with transforms on a CPU is prepared ahead, in threads.

        Args:
            pictures, transforms: see `prepare`.
            finish: makes the batch of the prepared pictures.
        """
        if transforms is None or pictures.device.type != "cpu":
            return lambda: finish(self.prepare(pictures, transforms))
        ready = torch.empty(pictures.shape, dtype=torch.float32)

        def fill(rows: slice) -> None:
            ready[rows] = self.prepare(pictures[rows], transforms[rows])

        futures = [self.pool.submit(fill, rows) for rows in self.slice_rows(len(pictures))]
        return after(futures, lambda: finish(ready))

    def slice_rows(self, rows: int) -> list[slice]:
        """Cut so many rows of a batch into slices for the threads."""
        step = max(1, rows // (_SLICES * self.threads))
        return [slice(start, start + step) for start in range(0, rows, step)]

    def make_batch(self, job: BatchJob, pictures: Tensor) -> Batch:
        """Make the batch of a job: mix its pictures and labels in pairs if the job says so.

        Args:
            job: which samples, and how they are mixed.
            pictures: (B, S, S, 3) normalised, on the device; changed in place where they are mixed.
        """
        index = torch.from_numpy(job.index)
        labels = self._labels[index]
        mixing = None
        if job.pairs is not None:
            pictures = mix_pictures(pictures, job.pairs)
            labels, mixing = mix_labels(labels, job.pairs)
            mixing = Mixing(*(copy_to_device(column, self.plan.device) for column in mixing))
        images = channels_first(pictures.to(self.plan.dtype))
        labels = copy_to_device(labels, self.plan.device)
        return Batch(images, labels, index, job.epoch, job.position, mixing)
