"""The loader that keeps all decoded pictures in memory, on the GPU if there is one: the fastest one."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.ahead import map_ahead, map_chunks
from mptctl.data.loading.base import DECODING, Loader
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.pictures import all_windows, resize_and_crop, use_one_thread
from mptctl.errors import StorageError
from mptctl.files import replacing
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.names import Progress, tell_nobody

Rows = NDArray[np.int64]
# Pictures that a thread decodes in one go.
_CHUNK = 32


class ResidentLoader(Loader):
    """Decodes, resizes and pads all pictures once; a batch is then cut out of the array in memory."""

    name = recipe_name = "resident"
    advice = "leave it a core (runtime.threads), or compute on a GPU"
    in_memory = True

    @classmethod
    def why_not(cls, plan: LoadPlan, *, is_asked: bool) -> str | None:
        """Say why for crops of pictures as stored and, unless it is asked for, for too much memory."""
        if plan.crops_as_stored:
            return "random-resized-crop needs pictures as stored, and resident keeps them at one size"
        fits = plan.resident_bytes / 1e9 <= plan.data.resident_limit_gb
        return None if fits or is_asked else describe_memory(plan, "above")

    def read_ahead(self) -> None:
        """Decode all pictures, or read them as an earlier call decoded them; see `load_resident_pictures`."""
        plan = self.plan
        pictures = load_resident_pictures(plan, self.cache_dir, self.progress)
        pad = self._pad = plan.padding
        padded = np.pad(pictures, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else pictures
        size = plan.data.image_size
        # Every window of every picture, without a copy: (n, 2 pad + 1, 2 pad + 1, ...). On a CPU a row of
        # pixels is one dimension with three places a pixel, so a window begins at every third place.
        if plan.device.type == "cpu":
            rows = padded.reshape(*padded.shape[:2], 3 * padded.shape[2])
            self._windows = np.lib.stride_tricks.sliding_window_view(rows, (size, 3 * size), (1, 2))[
                :, :, ::3
            ]
            # For each byte of a mirrored row, its place in the row.
            self._mirrored = (np.arange(size)[::-1, None] * 3 + np.arange(3)).reshape(-1)
        else:
            on_device = torch.from_numpy(padded).to(plan.device)
            self._device_windows = all_windows(on_device, size)
        # The place in the array above of each row of the manifest; -1 for rows of other parts and classes.
        self._row = np.full(len(plan.split.manifest), -1, dtype=np.int64)
        self._row[plan.indices] = np.arange(plan.num_samples)

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Yield the batch of each job, in order.

        On a GPU launches run ahead by themselves. On a CPU one thread works ``data.prefetch`` batches ahead.
        """
        if self.plan.device.type != "cpu":
            for job in jobs:
                yield self._gather(job)
            return

        # A thread of its own, since it waits for those of `self.pool` where they transform pictures.
        pool = ThreadPoolExecutor(1, thread_name_prefix="mptctl-resident", initializer=use_one_thread)
        try:
            yield from map_ahead(
                lambda job: pool.submit(self._gather, job).result, jobs, self.plan.data.prefetch
            )
        finally:
            pool.shutdown(cancel_futures=True)

    def _gather(self, job: BatchJob) -> Batch:
        """Make the batch of a job from the pictures in memory."""
        row = self._row[job.index]
        top, left, flip = job.views.top + self._pad, job.views.left + self._pad, job.views.flip
        gather = self._gather_on_cpu if self.plan.device.type == "cpu" else self._gather_on_gpu
        pictures = gather(row, top, left, flip)
        return self.start_preparing(pictures, job.transforms, partial(self.make_batch, job))()

    def _gather_on_cpu(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """Cut (B, S, S, 3) uint8 windows on the CPU.

        numpy copies whole rows of a window, which is three times as fast as indexing in torch.

        Args:
            row: (B,) places of the pictures in memory.
            top, left: (B,) first row and column of each window in the padded picture.
            flip: (B,) True where the window is mirrored.
        """
        pictures = self._windows[row, top, left]
        mirror = np.flatnonzero(flip)
        pictures[mirror] = np.take(pictures[mirror], self._mirrored, axis=2)
        size = self.plan.data.image_size
        return torch.from_numpy(pictures.reshape(-1, size, size, 3))

    def _gather_on_gpu(self, row: Rows, top: Rows, left: Rows, flip: NDArray[np.bool_]) -> Tensor:
        """Cut (B, S, S, 3) uint8 windows on the GPU; arguments: see `_gather_on_cpu`.

        One small copy to the GPU, which does not wait for what runs there, says where.
        """
        where = torch.from_numpy(np.stack([row, top, left, flip.astype(np.int64)])).pin_memory()
        row_d, top_d, left_d, flip_d = where.to(self.plan.device, non_blocking=True).unbind()
        pictures = self._device_windows[row_d, top_d, left_d]
        return torch.where(flip_d.bool()[:, None, None, None], pictures.flip(2), pictures)


def describe_memory(plan: LoadPlan, side: Literal["above", "below"]) -> str:
    """Say how much memory the pictures take, and on which side of the recipe's limit this is."""
    return (
        f"{plan.num_samples:,} pictures take {plan.resident_bytes / 1e9:.2f} GB decoded, "
        f"{side} data.resident_limit_gb {plan.data.resident_limit_gb:g}"
    )


def load_resident_pictures(
    plan: LoadPlan, cache_dir: Path, progress: Progress = tell_nobody
) -> NDArray[np.uint8]:
    """Load (n, S, S, 3) uint8 pictures of a pass, resized and cropped to the size that the model sees.

    Picture files are decoded for all classes of the part at once. The array is kept in a file in
    ``cache_dir``, which the next call reads instead.

    Args:
        plan: which pictures, and their size.
        cache_dir: folder for the file; it is not used for a source that is one array.
        progress: shows how many pictures are decoded.

    Raises:
        DataError: a file is gone, changed since split, or damaged.
        StorageError: ``cache_dir`` cannot be written.
    """
    manifest, size, resize = plan.split.manifest, plan.data.image_size, plan.resize
    if manifest.is_array:
        pictures = plan.split.array
        if pictures.shape[1:3] == (size, size):
            return pictures[plan.indices]
        return _decode_rows(plan, plan.indices, progress)
    manifest.check_unchanged(plan.indices)
    all_classes = plan.split.indices(plan.part)
    # Decoders may differ in last bits.
    digest = hashlib.blake2b(f"{manifest.digest} {jpeg_decoder().name}".encode(), digest_size=8).hexdigest()
    suffix = "" if plan.data.interpolation == "bilinear" else f"-{plan.data.interpolation}"
    suffix += plan.turned_suffix
    path = cache_dir / f"{plan.part}-{resize}-{size}{suffix}-{digest}.npy"
    decoded = _load_cached(path, (len(all_classes), size, size, 3))
    if decoded is None:
        decoded = _decode_rows(plan, all_classes, progress)
        with replacing(path) as stream:
            np.save(stream, decoded)
    return np.ascontiguousarray(decoded[np.searchsorted(all_classes, plan.indices)])


def _decode_rows(plan: LoadPlan, indices: Rows, progress: Progress) -> NDArray[np.uint8]:
    """Decode, resize and crop rows of the manifest in threads, into one (n, S, S, 3) array.

    Raises:
        DataError: a file is gone or damaged.
    """
    size = plan.data.image_size
    out = np.empty((len(indices), size, size, 3), dtype=np.uint8)

    def fill(chunk: range) -> None:
        for row in chunk:
            picture = plan.picture(int(indices[row]))
            out[row] = resize_and_crop(picture, plan.resize, size, plan.data.interpolation).numpy()

    chunks = map_chunks(
        fill, len(indices), _CHUNK, DECODING, progress, threads=plan.data.threads, begin=use_one_thread
    )
    for _ in chunks:
        pass
    return out


def _load_cached(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """Map the pictures of a file into memory.

    Returns:
        None where the file does not exist, is damaged, or holds an array of another shape or type.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        cached = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return cached if cached.shape == shape and cached.dtype == np.uint8 else None
