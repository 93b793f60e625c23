"""Times each part of the threaded loader's work by itself, to find the part that bounds the loader."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.augmentation.drawing import Transforms
from mptctl.data.augmentation.operations import operate
from mptctl.data.manifest import TRAIN, Manifest
from mptctl.data.pictures import Normalisation, crop_and_flip, decode, use_one_thread
from mptctl.data.plan import EpochPlan
from mptctl.files import Model
from mptctl.machine.facts import usable_cores
from mptctl.recipe import DataRecipe

PartName = Literal["read", "decode", "resize", "transform", "copy"]
# Numbers of pictures that are read, and that are decoded and kept: 64 of 12 megapixels take 2.3 GB.
_READ, _DECODED = 512, 64


class LoaderParts(Model):
    """Speed of each part of the threaded loader's work by itself, and of the disk."""

    threads: int = Field(description="threads that do all parts")
    images_per_s: dict[PartName, float] = Field(
        description="by part, medians over the runs: opening and reading files, from the system's cache "
        "where they are in it; decoding whole pictures; cutting, resizing and mirroring them; the recipe's "
        "transforms, where it has some and pictures stay on the CPU; copying them, normalised, into a batch "
        "on the device"
    )
    disk: float | None = Field(
        description="images/s of reading files that the system's cache does not hold; null where it cannot "
        "be emptied"
    )
    bound: PartName = Field(description="the slowest part")
    short_side: int = Field(description="median of the pictures' shorter sides, in pixels")


class PartsRunner:
    """Times the parts of the threaded loader's work.

    The constructor already reads and decodes the pictures that the parts after reading work on.

    Args:
        manifest: of picture files; training pictures are used.
        data: picture size, augmentation, normalisation and number of threads.
        batch_size: number of pictures in a batch.
        device: where batches go.
    """

    def __init__(self, manifest: Manifest, data: DataRecipe, batch_size: int, device: torch.device) -> None:
        self.threads = data.threads or usable_cores()
        rows = np.flatnonzero(manifest.parts == TRAIN)
        self._manifest, self._data, self._device = manifest, data, device
        self._rows = _choose_evenly(rows, _READ)
        kept_rows = _choose_evenly(self._rows, _DECODED)
        self._kinds = manifest.kinds[kept_rows].tolist()
        plan = EpochPlan(0, data)
        self._views = plan.views(0, kept_rows, manifest.heights[kept_rows], manifest.widths[kept_rows])
        self._transforms = plan.transforms(0, kept_rows) if device.type == "cpu" else None
        self._bytes = [manifest.read(row) for row in kept_rows.tolist()]
        self._pictures = [self._decode(i) for i in range(len(kept_rows))]
        self._cut = [self._resize(i) for i in range(len(kept_rows))]
        self._batch = torch.empty(
            (batch_size, data.image_size, data.image_size, 3),
            dtype=torch.float32 if device.type == "cpu" else torch.uint8,
            pin_memory=device.type == "cuda",
        )
        self._normalise = Normalisation(data, device)
        shorter = np.minimum(manifest.heights[rows], manifest.widths[rows])
        self._short_side = int(np.median(shorter))
        self._rates: defaultdict[PartName, list[float]] = defaultdict(list)
        self._disk: list[float] = []

    def run(self, seconds: float) -> None:
        """Time each part, and add one measurement of each to those of earlier calls.

        A part takes a quarter of ``seconds``. Where the system's cache can be emptied, the files are first
        read once from the disk, for however long that takes. On a device other than the CPU, copying is timed
        twice, within the main memory and to the device: the slower one counts.
        """
        seconds /= 4
        files, pictures = len(self._rows), len(self._bytes)
        with ThreadPoolExecutor(self.threads, initializer=use_one_thread) as pool:
            if self._empty_cache():
                begin = time.perf_counter()
                list(pool.map(self._read, range(files)))
                self._disk.append(files / (time.perf_counter() - begin))
            self._rates["read"].append(self._time(pool, self._read, files, seconds))
            self._rates["decode"].append(self._time(pool, self._decode, pictures, seconds))
            self._rates["resize"].append(self._time(pool, self._resize, pictures, seconds))
            if self._transforms is not None:
                transform = partial(self._transform, self._transforms)
                self._rates["transform"].append(self._time(pool, transform, pictures, seconds))
            copied = self._time(pool, self._copy, pictures, seconds)
        if self._device.type != "cpu":
            copied = min(copied, self._time_transfer(seconds))
        self._rates["copy"].append(copied)

    def medians(self) -> LoaderParts:
        """Return the median speed of each part over the runs (at least one), and the slowest part."""
        rates = {name: round(statistics.median(runs), 1) for name, runs in self._rates.items()}
        return LoaderParts(
            threads=self.threads,
            images_per_s=rates,
            disk=round(statistics.median(self._disk), 1) if self._disk else None,
            bound=min(rates, key=lambda name: rates[name]),
            short_side=self._short_side,
        )

    def _time(
        self, pool: ThreadPoolExecutor, work: Callable[[int], object], count: int, seconds: float
    ) -> float:
        """Do some work on pictures in all threads; return images a second of all threads together.

        Args:
            pool: of `threads` threads.
            work: done on the picture at a place; each thread begins at another place.
            count: number of pictures; each thread goes through them again and again.
            seconds: for which each thread works; it finishes the picture that it has begun.
        """
        begin = time.perf_counter()

        def work_from(first: int) -> int:
            done = 0
            while done == 0 or time.perf_counter() - begin < seconds:
                work((first + done) % count)
                done += 1
            return done

        starts = (thread * count // self.threads for thread in range(self.threads))
        images = sum(pool.map(work_from, starts))
        return images / (time.perf_counter() - begin)

    def _read(self, place: int) -> bytes:
        """Read the file at a place in ``_rows``, after the check that it has not changed."""
        row = self._rows[place : place + 1]
        self._manifest.check_unchanged(row)
        return self._manifest.read(int(row[0]))

    def _decode(self, place: int) -> torch.Tensor:
        """Decode the file whose bytes are at a place in ``_bytes``."""
        return decode(self._bytes[place], self._kinds[place], "a picture")

    def _resize(self, place: int) -> torch.Tensor:
        """Cut, resize and mirror the decoded picture at a place."""
        return crop_and_flip(self._pictures[place], self._data, self._views, place)

    def _transform(self, transforms: Transforms, place: int) -> torch.Tensor:
        """Apply the recipe's transforms to the resized picture at a place."""
        return operate(self._cut[place][None], transforms[place : place + 1])

    def _copy(self, place: int) -> None:
        """Copy the resized picture at a place into the batch: for the CPU normalised, for a GPU as bytes."""
        picture = self._cut[place]
        row = place % len(self._batch)
        self._batch[row] = picture if self._batch.dtype == torch.uint8 else self._normalise(picture)

    def _time_transfer(self, seconds: float) -> float:
        """Move whole batches to the device and normalise them there; return images a second."""
        begin, batches = time.perf_counter(), 0
        while batches == 0 or time.perf_counter() - begin < seconds:
            self._normalise(self._batch.to(self._device, non_blocking=True))
            torch.cuda.synchronize(self._device)
            batches += 1
        return batches * len(self._batch) / (time.perf_counter() - begin)

    def _empty_cache(self) -> bool:
        """Drop the files from the system's cache; return False where the system has no call for that."""
        if not hasattr(os, "posix_fadvise"):
            return False
        for row in self._rows.tolist():
            descriptor = os.open(self._manifest.file(row), os.O_RDONLY)
            try:
                with suppress(OSError):  # pages that are not on the disk yet would stay in the cache
                    os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
        return True


def _choose_evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Choose at most ``most`` rows, at even distances."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]
