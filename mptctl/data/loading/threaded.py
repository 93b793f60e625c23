"""Pictures decoded by torchvision in a pool of threads: works everywhere, and is what DALI is held against."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mptctl.data.loading.base import PlannedLoader
from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.data.pictures import augment, decode_file, resize_and_crop, single_threaded
from mptctl.machine.facts import usable_cores

if TYPE_CHECKING:
    from mptctl.data.loading.batch import Batch

# Pieces that a batch is cut into, for each thread: few enough to cost nothing, enough to share work evenly.
_PIECES = 4


class ThreadedLoader(PlannedLoader):
    """Reads, decodes and cuts each picture in one of several threads, some batches ahead."""

    name = "threaded"

    def __init__(self, work: LoadPlan, reason: str) -> None:
        super().__init__(work, reason)
        self._workers = work.data.threads or usable_cores()
        self._pool = ThreadPoolExecutor(
            self._workers, thread_name_prefix="mptctl-threaded", initializer=single_threaded
        )
        self._ahead: deque[tuple[BatchJob, Tensor, list[Future[None]]]] = deque()

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Keep so many batches in work, and give them in order."""
        ahead = self._ahead = deque()
        try:
            for job in jobs:
                ahead.append(self._start(job))
                if len(ahead) > self.work.data.prefetch:
                    yield self._finish(*ahead.popleft())
            while ahead:
                yield self._finish(*ahead.popleft())
        finally:
            for _, _, pieces in ahead:
                for piece in pieces:
                    piece.cancel()

    def ready(self) -> int:
        """Batches that stand ready now."""
        return sum(all(piece.done() for piece in pieces) for _, _, pieces in list(self._ahead))

    def close(self) -> None:
        """Stop the threads; safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, job: BatchJob) -> tuple[BatchJob, Tensor, list[Future[None]]]:
        size = self.work.data.image_size
        pinned = self.work.device.type == "cuda"
        out = torch.empty((len(job.index), size, size, 3), dtype=torch.uint8, pin_memory=pinned)
        step = max(1, len(job.index) // (_PIECES * self._workers))
        pieces = [
            self._pool.submit(self._fill, job, out, slice(start, start + step))
            for start in range(0, len(job.index), step)
        ]
        return job, out, pieces

    def _finish(self, job: BatchJob, out: Tensor, pieces: list[Future[None]]) -> Batch:
        for piece in pieces:
            piece.result()
        return self.batch(job, self.normalise(out.to(self.work.device, non_blocking=True)))

    def _fill(self, job: BatchJob, out: Tensor, rows: slice) -> None:
        work, manifest = self.work, self.work.split.manifest
        index = job.index[rows]
        manifest.check_unchanged(index)
        views = None if job.views is None else job.views[rows]
        for row, i in enumerate(index.tolist()):
            if manifest.has_files:
                image = decode_file(manifest, i)
            else:
                image = torch.from_numpy(np.ascontiguousarray(work.split.array[i])).permute(2, 0, 1)
            if views is None:
                image = resize_and_crop(image, work.resize, work.data.image_size)
            else:
                image = augment(image, work.data, views, row)
            out[rows.start + row] = image.permute(1, 2, 0)
