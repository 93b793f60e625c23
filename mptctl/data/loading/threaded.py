"""Pictures decoded by torchcodec in a pool of threads: works everywhere; DALI is compared with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future

import torch
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch, BatchJob
from mptctl.data.pictures import augment, resize_and_crop


class ThreadedLoader(Loader):
    """Reads, decodes and cuts pictures in threads, some batches ahead; on the CPU, normalises them."""

    name = recipe_name = "threaded"
    advice = "raise data.threads, or let DALI read (data.loader=dali)"

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Keep so many batches in work, and give them in order."""
        ahead: deque[tuple[BatchJob, Tensor, list[Future[None]]]] = deque()
        try:
            for job in jobs:
                ahead.append(self._start_batch(job))
                if len(ahead) > self.plan.data.prefetch:
                    yield self._finish_batch(*ahead.popleft())
            while ahead:
                yield self._finish_batch(*ahead.popleft())
        finally:
            for _, _, pieces in ahead:
                for piece in pieces:
                    piece.cancel()

    def _start_batch(self, job: BatchJob) -> tuple[BatchJob, Tensor, list[Future[None]]]:
        size = self.plan.data.image_size
        on_cpu = self.plan.device.type == "cpu"
        # For a device, bytes are copied and normalised there; on the CPU the threads do that, picture by
        # picture, while it is in their caches.
        out = torch.empty(
            (len(job.index), size, size, 3),
            dtype=torch.float32 if on_cpu else torch.uint8,
            pin_memory=not on_cpu,
        )
        pieces = [self.pool.submit(self._prepare_rows, job, out, rows) for rows in self.pieces(len(out))]
        return job, out, pieces

    def _finish_batch(self, job: BatchJob, out: Tensor, pieces: list[Future[None]]) -> Batch:
        for piece in pieces:
            piece.result()
        if out.dtype == torch.uint8:
            out = self.prepare(out.to(self.plan.device, non_blocking=True), job.transforms)
        return self.batch(job, out)

    def _prepare_rows(self, job: BatchJob, out: Tensor, rows: slice) -> None:
        plan, manifest = self.plan, self.plan.split.manifest
        index = job.index[rows]
        manifest.check_unchanged(index)
        views = job.views[rows]
        for row, i in enumerate(index.tolist()):
            picture = plan.picture(i)
            if plan.train:
                picture = augment(picture, plan.data, views, row)
            else:
                picture = resize_and_crop(picture, plan.resize, plan.data.image_size, plan.data.interpolation)
            place = slice(rows.start + row, rows.start + row + 1)
            if out.dtype == torch.uint8:
                out[place] = picture
            elif job.transforms is None:
                out[place] = self.normalise(picture)
            else:
                out[place] = self.prepare(picture[None], job.transforms[place])
