"""The loader that decodes pictures in a pool of threads; it can serve every plan."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial

import torch
from torch import Tensor

from mptctl.data.ahead import after, map_ahead
from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch, BatchJob
from mptctl.data.pictures import crop_and_flip, resize_and_crop


class ThreadedLoader(Loader):
    """Reads, decodes and crops pictures in threads, ``data.prefetch`` batches ahead.

    For a CPU the threads also normalise and transform the pictures; for a GPU that is done there.
    """

    name = recipe_name = "threaded"
    advice = "raise data.threads, or let DALI read (data.loader=dali)"
    # More threads wait for the interpreter's lock: on 16 cores 8 threads read 2,184 images/s, 16 read 1,719
    # (docs/speed.md).
    most_threads = 8

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Yield the batch of each job, in order, with ``data.prefetch`` batches in work beyond it."""
        return map_ahead(self._start_batch, jobs, self.plan.data.prefetch)

    def _start_batch(self, job: BatchJob) -> Callable[[], Batch]:
        """Begin the work on a batch: the threads fill a tensor. Returns a function that waits for it."""
        size = self.plan.data.image_size
        on_cpu = self.plan.device.type == "cpu"
        # A GPU gets bytes, which are less to copy; on a CPU each thread normalises a picture that is still in
        # its cache.
        out = torch.empty(
            (len(job.index), size, size, 3),
            dtype=torch.float32 if on_cpu else torch.uint8,
            pin_memory=not on_cpu,
        )
        futures = [self.pool.submit(self._prepare_rows, job, out, rows) for rows in self.slice_rows(len(out))]
        return after(futures, partial(self._finish_batch, job, out))

    def _finish_batch(self, job: BatchJob, out: Tensor) -> Batch:
        """Make the batch on the device."""
        if out.dtype == torch.uint8:
            out = self.prepare(out.to(self.plan.device, non_blocking=True), job.transforms)
        return self.make_batch(job, out)

    def _prepare_rows(self, job: BatchJob, out: Tensor, rows: slice) -> None:
        """Write the pictures of some rows of a job into ``out``: bytes, or floats ready for the model.

        Raises:
            DataError: a file is gone, changed since split, or damaged.
        """
        plan = self.plan
        for row in range(len(out))[rows]:
            picture = plan.picture(int(job.index[row]))
            if plan.train:
                picture = crop_and_flip(picture, plan.data, job.views, row)
            else:
                picture = resize_and_crop(picture, plan.resize, plan.data.image_size, plan.data.interpolation)
            if out.dtype == torch.uint8:
                out[row] = picture
            else:
                one = slice(row, row + 1)
                transforms = None if job.transforms is None else job.transforms[one]
                out[one] = self.prepare(picture[None], transforms)
