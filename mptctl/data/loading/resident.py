"""Pictures in memory as uint8, on the device where there is one: for what fits there, nothing is faster."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loading.base import PlannedLoader
from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.data.pictures import decode_file, resize_and_crop, single_threaded
from mptctl.errors import StorageError
from mptctl.files import replacing
from mptctl.machine.facts import usable_cores

if TYPE_CHECKING:
    from mptctl.data.loading.batch import Batch

Progress = Callable[[int, int], None]
Rows = NDArray[np.int64]
_CHUNK = 256


class ResidentLoader(PlannedLoader):
    """All pictures of the pass decoded, resized and padded once; a batch is a gather of windows."""

    name = "resident"

    def __init__(
        self, work: LoadPlan, reason: str, cache_dir: Path, progress: Progress | None = None
    ) -> None:
        super().__init__(work, reason)
        pictures = resident_pictures(work, cache_dir, progress)
        pad = self._pad = work.data.padding if work.train and work.data.augment == "pad-crop" else 0
        padded = np.pad(pictures, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else pictures
        size = work.data.image_size
        # Every window of every picture, without a copy: (n, 2 pad + 1, 2 pad + 1, ...).
        if work.device.type == "cpu":
            rows = padded.reshape(*padded.shape[:2], 3 * padded.shape[2])
            self._windows = np.lib.stride_tricks.sliding_window_view(rows, (size, 3 * size), (1, 2))[
                :, :, ::3
            ]
            mirrored = np.arange(size)[::-1, None] * 3 + np.arange(3)
            self._mirrored = mirrored.reshape(-1)  # places of a row's bytes when it is mirrored
        else:
            on_device = torch.from_numpy(padded).to(work.device)
            self._device_windows = on_device.unfold(1, size, 1).unfold(2, size, 1)
        # Row of each sample in the array above.
        self._row = np.full(len(work.split.manifest), -1, dtype=np.int64)
        self._row[work.indices] = np.arange(work.num_samples)
        self._ready: queue.Queue[Batch | BaseException | None] = queue.Queue(work.data.prefetch)

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """On a device, launches run ahead by themselves; on the CPU one thread works ahead."""
        if self.work.device.type != "cpu":
            for job in jobs:
                yield self._gather(job)
            return
        ready = self._ready = queue.Queue(self.work.data.prefetch)
        stop = threading.Event()

        def put(item: Batch | BaseException | None) -> None:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.1)
                    return
                except queue.Full:
                    pass

        def work_ahead() -> None:
            try:
                single_threaded()
                for job in jobs:
                    put(self._gather(job))
                    if stop.is_set():
                        return
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=work_ahead, name="mptctl-resident", daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()

    def ready(self) -> int:
        """Batches that stand ready now."""
        return self._ready.qsize()

    def _gather(self, job: BatchJob) -> Batch:
        row = self._row[job.index]
        top = left = np.zeros(len(row), dtype=np.int64)
        flip = np.zeros(len(row), dtype=np.bool_)
        if job.views is not None:
            top, left, flip = job.views.top + self._pad, job.views.left + self._pad, job.views.flip
        gather = self._on_cpu if self.work.device.type == "cpu" else self._on_device
        return self.batch(job, self.normalise(gather(row, top, left, flip)))

    def _on_cpu(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """(B, S, S, 3) uint8. numpy copies whole rows, which is three times as fast as torch's index."""
        pictures = self._windows[row, top, left]
        mirror = np.flatnonzero(flip)
        pictures[mirror] = np.take(pictures[mirror], self._mirrored, axis=2)
        size = self.work.data.image_size
        return torch.from_numpy(pictures.reshape(-1, size, size, 3))

    def _on_device(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """(B, S, S, 3) uint8, after one small copy to the device that does not wait for what runs there."""
        where = torch.from_numpy(np.stack([row, top, left, flip.astype(np.int64)])).pin_memory()
        row_d, top_d, left_d, flip_d = where.to(self.work.device, non_blocking=True).unbind()
        pictures = self._device_windows[row_d, top_d, left_d].permute(0, 2, 3, 1)
        return torch.where(flip_d.bool()[:, None, None, None], pictures.flip(2), pictures)


def resident_pictures(work: LoadPlan, cache_dir: Path, progress: Progress | None = None) -> NDArray[np.uint8]:
    """(n, size, size, 3) uint8 pictures of a pass, fitted to the square that the model sees.

    Files are decoded once for all classes of the part, and the array is kept in ``cache_dir``.

    Raises:
        DataError: a file is gone, changed since split, or damaged.
        StorageError: ``cache_dir`` cannot be written.
    """
    manifest, size, resize = work.split.manifest, work.data.image_size, work.resize
    if not manifest.has_files:
        pictures = work.split.array
        if pictures.shape[1:3] == (size, size):
            return pictures[work.indices]
        return _fill(
            work.indices, size, lambda i: resize_and_crop(_chw(pictures[i]), resize, size), work, progress
        )
    manifest.check_unchanged(work.indices)
    everything = work.split.indices(work.part)
    name = f"{work.part}-{resize}-{size}-{manifest.fingerprint[:16]}.npy"
    path = cache_dir / name
    decoded = _load(path, (len(everything), size, size, 3))
    if decoded is None:
        decoded = _fill(
            everything,
            size,
            lambda i: resize_and_crop(decode_file(manifest, i), resize, size),
            work,
            progress,
        )
        with replacing(path) as stream:
            np.save(stream, decoded)
    return np.ascontiguousarray(decoded[np.searchsorted(everything, work.indices)])


def _fill(
    indices: NDArray[np.int64],
    size: int,
    read: Callable[[int], Tensor],
    work: LoadPlan,
    progress: Progress | None,
) -> NDArray[np.uint8]:
    """Read pictures in threads into one array."""
    out = np.empty((len(indices), size, size, 3), dtype=np.uint8)
    given_up = threading.Event()

    def fill(start: int) -> None:
        for row in range(start, min(start + _CHUNK, len(indices))):
            if given_up.is_set():
                return
            out[row] = read(int(indices[row])).permute(1, 2, 0).numpy()

    starts = range(0, len(indices), _CHUNK)
    with ThreadPoolExecutor(work.data.threads or usable_cores(), initializer=single_threaded) as pool:
        try:
            for done, _ in enumerate(pool.map(fill, starts), start=1):
                if progress is not None:
                    progress(min(done * _CHUNK, len(indices)), len(indices))
        except BaseException:
            # Leaving the pool waits for its threads: after Ctrl-C or a bad picture none begins another picture.
            given_up.set()
            raise
    return out


def _load(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None  # not there, or damaged: made again
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return found if found.shape == shape and found.dtype == np.uint8 else None


def _chw(picture: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1)
