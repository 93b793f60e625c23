"""Pictures in memory as uint8, on the device where there is one: for what fits there, nothing is faster."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loading.base import DECODING, Loader
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.pictures import resize_and_crop, single_threaded, windows
from mptctl.errors import StorageError
from mptctl.files import replacing
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, tell_nobody

Rows = NDArray[np.int64]
# Pictures that a thread decodes at once.
_CHUNK = 32


class ResidentLoader(Loader):
    """All pictures of the pass decoded, resized and padded once; a batch is a gather of windows."""

    name = recipe_name = "resident"
    advice = "leave it a core (runtime.threads), or compute on a GPU"
    in_memory = True

    @classmethod
    def refuses(cls, plan: LoadPlan) -> str | None:
        """Pictures at one size cannot be cropped as they are stored."""
        if plan.crops_as_stored:
            return (
                "keeps pictures at one size and cannot crop them as stored "
                "(data.augment random-resized-crop); use auto, dali or threaded"
            )
        return None

    @classmethod
    def declines(cls, plan: LoadPlan) -> str | None:
        """Also what takes more memory than the recipe allows."""
        if plan.crops_as_stored:
            return "random-resized-crop needs pictures as stored"
        if plan.resident_bytes / 1e9 <= plan.data.resident_limit_gb:
            return None
        return f"{_memory(plan)}, above {_memory_limit(plan)}"

    @classmethod
    def suits(cls, plan: LoadPlan) -> str:
        """The memory that it takes."""
        return f"{_memory(plan)}, below {_memory_limit(plan)}"

    def __init__(
        self, plan: LoadPlan, reason: str, cache_dir: Path = Path(), progress: Progress = tell_nobody
    ) -> None:
        super().__init__(plan, reason, cache_dir, progress)
        pictures = resident_pictures(plan, cache_dir, progress)
        pad = self._pad = plan.padding
        padded = np.pad(pictures, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else pictures
        size = plan.data.image_size
        # Every window of every picture, without a copy: (n, 2 pad + 1, 2 pad + 1, ...).
        if plan.device.type == "cpu":
            rows = padded.reshape(*padded.shape[:2], 3 * padded.shape[2])
            self._windows = np.lib.stride_tricks.sliding_window_view(rows, (size, 3 * size), (1, 2))[
                :, :, ::3
            ]
            mirrored = np.arange(size)[::-1, None] * 3 + np.arange(3)
            self._mirrored = mirrored.reshape(-1)  # places of a row's bytes when it is mirrored
        else:
            on_device = torch.from_numpy(padded).to(plan.device)
            self._device_windows = windows(on_device, size)
        # Row of each sample in the array above.
        self._row = np.full(len(plan.split.manifest), -1, dtype=np.int64)
        self._row[plan.indices] = np.arange(plan.num_samples)

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """On a device, launches run ahead by themselves; on the CPU one thread works ahead."""
        if self.plan.device.type != "cpu":
            for job in jobs:
                yield self._gather(job)
            return

        def next_batch() -> Batch | None:
            job = next(jobs, None)
            return None if job is None else self._gather(job)

        # One thread takes the jobs in order, so many batches ahead.
        pool = ThreadPoolExecutor(1, thread_name_prefix="mptctl-resident", initializer=single_threaded)
        try:
            ahead = deque(pool.submit(next_batch) for _ in range(self.plan.data.prefetch + 1))
            batch = ahead.popleft().result()
            while batch is not None:
                ahead.append(pool.submit(next_batch))
                yield batch
                batch = ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _gather(self, job: BatchJob) -> Batch:
        row = self._row[job.index]
        top, left, flip = job.views.top + self._pad, job.views.left + self._pad, job.views.flip
        gather = self._on_cpu if self.plan.device.type == "cpu" else self._on_device
        return self.batch(job, self.start_preparing(gather(row, top, left, flip), job.transforms)())

    def _on_cpu(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """(B, S, S, 3) uint8. numpy copies whole rows, which is three times as fast as torch's index."""
        pictures = self._windows[row, top, left]
        mirror = np.flatnonzero(flip)
        pictures[mirror] = np.take(pictures[mirror], self._mirrored, axis=2)
        size = self.plan.data.image_size
        return torch.from_numpy(pictures.reshape(-1, size, size, 3))

    def _on_device(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """(B, S, S, 3) uint8, after one small copy to the device that does not wait for what runs there."""
        where = torch.from_numpy(np.stack([row, top, left, flip.astype(np.int64)])).pin_memory()
        row_d, top_d, left_d, flip_d = where.to(self.plan.device, non_blocking=True).unbind()
        pictures = self._device_windows[row_d, top_d, left_d]
        return torch.where(flip_d.bool()[:, None, None, None], pictures.flip(2), pictures)


def _memory(plan: LoadPlan) -> str:
    return f"{plan.num_samples:,} pictures take {plan.resident_bytes / 1e9:.2f} GB decoded"


def _memory_limit(plan: LoadPlan) -> str:
    return f"data.resident_limit_gb {plan.data.resident_limit_gb:g}"


def resident_pictures(plan: LoadPlan, cache_dir: Path, progress: Progress = tell_nobody) -> NDArray[np.uint8]:
    """(n, S, S, 3) uint8 pictures of a pass, resized and cropped to the size that the model sees.

    Files are decoded once for all classes of the part, and the array is kept in ``cache_dir``.

    Raises:
        DataError: a file is gone, changed since split, or damaged.
        StorageError: ``cache_dir`` cannot be written.
    """
    manifest, size, resize = plan.split.manifest, plan.data.image_size, plan.resize
    if manifest.is_array:
        pictures = plan.split.array
        if pictures.shape[1:3] == (size, size):
            return pictures[plan.indices]
        return _fill(plan, plan.indices, progress)
    manifest.check_unchanged(plan.indices)
    everything = plan.split.indices(plan.part)
    # Of one manifest, splits take the pictures of other classes.
    kept = hashlib.blake2b(manifest.digest.encode() + everything.tobytes(), digest_size=8).hexdigest()
    by = "" if plan.data.interpolation == "bilinear" else f"-{plan.data.interpolation}"
    name = f"{plan.part}-{resize}-{size}{by}-{kept}.npy"
    path = cache_dir / name
    decoded = _load_kept(path, (len(everything), size, size, 3))
    if decoded is None:
        decoded = _fill(plan, everything, progress)
        with replacing(path) as stream:
            np.save(stream, decoded)
    return np.ascontiguousarray(decoded[np.searchsorted(everything, plan.indices)])


def _fill(plan: LoadPlan, indices: Rows, progress: Progress) -> NDArray[np.uint8]:
    """Read pictures in threads into one array."""
    size = plan.data.image_size
    out = np.empty((len(indices), size, size, 3), dtype=np.uint8)

    def fill(start: int) -> None:
        for row in range(start, min(start + _CHUNK, len(indices))):
            picture = plan.picture(int(indices[row]))
            out[row] = resize_and_crop(picture, plan.resize, size, plan.data.interpolation).numpy()

    starts = range(0, len(indices), _CHUNK)
    pool = ThreadPoolExecutor(plan.data.threads or usable_cores(), initializer=single_threaded)
    try:
        for done, _ in enumerate(pool.map(fill, starts), start=1):
            progress(DECODING, min(done * _CHUNK, len(indices)), len(indices))
    finally:
        # After Ctrl-C or a bad picture no thread begins another piece.
        pool.shutdown(cancel_futures=True)
    return out


def _load_kept(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """Pictures that were kept, mapped; None where the file is not there, damaged, or of another shape."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return found if found.shape == shape and found.dtype == np.uint8 else None
