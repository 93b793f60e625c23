"""Teacher logits on disk: computed once, when first needed, and shared by all runs that ask the same question.

A question is a teacher, the pictures of one pass of the epoch plan, and how they are computed; each has a folder
of its own below ``cache/teachers``, with one file an epoch. Files are filled batch by batch, by whichever run gets
to a batch first; a batch carries a digest, so that one that is missing, cut short, damaged or of other samples is
computed again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loader import Batch, Loader
from mptctl.data.plan import EpochPlan
from mptctl.errors import UsageError
from mptctl.recipe import Recipe
from mptctl.storage import storage_error
from mptctl.teachers import TeacherLogits, TeacherSource

Role = Literal["old", "ref"]
# Keys of the data recipe that change how fast pictures come, not what is in them.
ONLY_SPEED = {"loader", "workers", "prefetch", "resident_limit_gb"}
DIGEST_BYTES = 16
# Changes when files are laid out, or their numbers rounded, in another way.
LAYOUT = 1


class CachedTeachers:
    """Teachers whose answers are kept: a `TeacherSource` for one loader's pass.

    Batches are computed whole, in the plan's own composition, since on a CPU the last bits of a picture's logits
    change with the batch that it is in; what a run gets is the same whether it was kept or just computed.

    Args:
        teachers: what computes.
        loader: whose batches will be asked for.
        recipe: of the run.
        roles: teachers that will be asked for.
        folder: of the cache.

    Attributes:
        digests: of the teachers.
        note: where the cache is, and how large it can become.

    Raises:
        UsageError: it would become larger than ``runtime.cache_limit_gb``.
    """

    def __init__(
        self, teachers: TeacherSource, loader: Loader, recipe: Recipe, roles: list[Role], folder: Path
    ) -> None:
        work = loader.work
        self.digests = teachers.digests
        self._teachers = teachers
        self._work = work
        self._plan = EpochPlan(work.seed, work.data)
        self._epoch: int | None = None
        self._type = np.dtype(np.float16 if recipe.runtime.cache_precision == "fp16" else np.float32)
        widths = {"old": work.split.classes.num_old, "ref": len(work.split.classes.names)}
        self._stores = {
            role: _Store(
                folder,
                _question(role, teachers.digests, loader, recipe),
                len(work.indices),
                widths[role],
                self._type,
            )
            for role in roles
        }
        self._folder = folder
        self._limit = recipe.runtime.cache_limit_gb
        epochs = _epochs(recipe, loader) if work.train else 1
        self._needed = sum(store.epoch_bytes for store in self._stores.values()) * epochs
        if self._needed > self._limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {self._limit:g}: the teacher logits of this run take "
                f"{_size(self._needed)}; raise it, or train without --cache-teachers"
            )
        self.note = (
            f"teacher logits are kept in {folder}: up to {_size(self._needed)} "
            f"({recipe.runtime.cache_precision}, {epochs} {'epoch' if epochs == 1 else 'epochs'})"
        )

    def logits(self, batch: Batch, epoch: int, *, old: bool, ref: bool) -> TeacherLogits:
        """Logits of the wanted teachers for a batch of an epoch of the plan, float32, on the batch's device.

        Raises:
            ValueError: the batch is not one of the loader's.
            StorageError: the disk is full or cannot be read.
        """
        return TeacherLogits(
            self._answer("old", batch, epoch) if old else None,
            self._answer("ref", batch, epoch) if ref else None,
        )

    def _answer(self, role: Role, batch: Batch, epoch: int) -> Tensor:
        store = self._stores[role]
        index = batch.index.numpy()
        start = self._place(epoch, index)
        rows = store.read(epoch, start, index)
        if rows is None:
            with store.locked(epoch):
                rows = store.read(epoch, start, index)  # another run may have been faster
                if rows is None:
                    found = self._teachers.logits(batch, epoch, old=role == "old", ref=role == "ref")
                    logits = found.old if role == "old" else found.ref
                    assert logits is not None
                    rows = narrowed(logits.cpu().numpy(), self._type)
                    store.write(epoch, start, index, rows)
        answer = torch.from_numpy(rows)
        device = batch.images.device
        if device.type == "cuda":
            answer = answer.pin_memory().to(device, non_blocking=True)
        return answer.float()

    def _place(self, epoch: int, index: NDArray[np.int64]) -> int:
        """Where in the epoch's order a batch begins."""
        if self._epoch is None:
            _make_room(self._folder, self._needed, self._limit, {s.folder for s in self._stores.values()})
        if epoch != self._epoch:
            work = self._work
            self._order = self._plan.order(epoch, work.indices) if work.train else work.indices
            self._position = np.zeros(len(work.split.manifest), dtype=np.int64)
            self._position[self._order] = np.arange(len(self._order))
            self._epoch = epoch
        start = int(self._position[index[0]])
        if not np.array_equal(self._order[start : start + len(index)], index):
            raise ValueError(f"a batch of {len(index)} samples is not one of epoch {epoch} of the plan")
        return start


def narrowed(logits: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round logits so that every row keeps its answer.

    Rounding to the nearest can make an earlier class tie with the largest one and so become the answer (the first of
    the largest), which would change focal weights. Such a class is rounded down instead, to the next number below.
    Finite logits stay finite.

    Args:
        logits: (N, C) float32.
        dtype: float16, or float32, which changes nothing.

    Returns:
        (N, C) of the type, contiguous.
    """
    if dtype == logits.dtype:
        return np.ascontiguousarray(logits)
    high = np.finfo(dtype).max
    low = np.nextafter(-high, dtype.type(0))  # leaves one finite number to round down to
    finite = np.where(np.isinf(logits), logits, np.clip(logits, np.float32(low), np.float32(high)))
    rounded = finite.astype(dtype)
    if logits.shape[1]:
        answer = logits.argmax(axis=1)[:, None]  # numpy's promises the first
        largest = np.take_along_axis(rounded, answer, axis=1)
        earlier = np.arange(logits.shape[1]) < answer
        rounded = np.where(
            earlier & (rounded == largest), np.nextafter(largest, dtype.type(-np.inf)), rounded
        )
    return np.ascontiguousarray(rounded)


class _Store:
    """The kept answers of one role to one question: a file an epoch.

    A file holds a digest for each place of the epoch's order (those where a batch begins are used), then the logits
    in that order. Only a digest that fits makes a batch valid, so nothing needs to be written in one piece.
    """

    def __init__(
        self, root: Path, question: dict[str, Any], rows: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self._open: tuple[int, int, Path] | None = None
        self._question = json.dumps(question, indent=2, sort_keys=True)
        self._key = hashlib.blake2b(self._question.encode(), digest_size=DIGEST_BYTES).digest()
        self.folder = root / f"{question['role']}-{self._key.hex()[:16]}"
        self._rows = rows
        self._width = width
        self._type = dtype

    @property
    def epoch_bytes(self) -> int:
        """Size of a whole epoch's file."""
        return self._rows * (DIGEST_BYTES + self._width * self._type.itemsize)

    def read(self, epoch: int, start: int, index: NDArray[np.int64]) -> NDArray[Any] | None:
        """(B, width) logits of the batch that begins at ``start``; None where they are not there, or damaged."""
        file, path = self._file(epoch)
        try:
            digest = os.pread(file, DIGEST_BYTES, start * DIGEST_BYTES)
            payload = bytearray(os.pread(file, len(index) * self._row_bytes, self._offset(start)))
        except OSError as error:
            raise storage_error(path, error) from error
        if digest != self._digest(epoch, start, index, payload):
            return None
        return np.frombuffer(payload, dtype=self._type).reshape(len(index), self._width)

    def write(self, epoch: int, start: int, index: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Keep the logits of a batch; the caller holds the lock."""
        file, path = self._file(epoch)
        payload = rows.tobytes()
        digest = self._digest(epoch, start, index, payload)
        for content, offset in ((payload, self._offset(start)), (digest, start * DIGEST_BYTES)):
            try:
                if os.pwrite(file, content, offset) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                raise storage_error(path, error, len(content)) from error

    @contextmanager
    def locked(self, epoch: int) -> Iterator[None]:
        """Hold an epoch's file against other processes; the kernel lets go of it with the process."""
        file, path = self._file(epoch)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    @property
    def _row_bytes(self) -> int:
        return self._width * self._type.itemsize

    def _offset(self, start: int) -> int:
        return self._rows * DIGEST_BYTES + start * self._row_bytes

    def _file(self, epoch: int) -> tuple[int, Path]:
        if self._open is None or self._open[0] != epoch:
            self.close()
            path = self.folder / f"epoch-{epoch:04d}.bin"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._open = (epoch, os.open(path, os.O_RDWR | os.O_CREAT, 0o644), path)
                # In plain text, for whoever wonders what this folder is.
                (self.folder / "question.json").write_text(self._question, encoding="utf-8")
            except OSError as error:
                raise storage_error(path, error) from error
        return self._open[1], self._open[2]

    def close(self) -> None:
        """Close the open epoch's file."""
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def __del__(self) -> None:
        self.close()

    def _digest(self, epoch: int, start: int, index: NDArray[np.int64], payload: bytes | bytearray) -> bytes:
        state = hashlib.blake2b(self._key, digest_size=DIGEST_BYTES)
        state.update(f"{epoch} {start} {len(payload)} ".encode())
        state.update(index.tobytes())
        state.update(payload)
        return state.digest()


def _question(role: Role, digests: dict[str, str], loader: Loader, recipe: Recipe) -> dict[str, Any]:
    """Everything that a teacher's logits depend on, down to the last bit."""
    work, runtime = loader.work, recipe.runtime
    gpu = work.device.type == "cuda"
    return {
        "layout": LAYOUT,
        "role": role,
        "teachers": [digest for name, digest in digests.items() if name.startswith(role)],
        "split": work.split.fingerprint,
        "part": work.part,
        "samples": work.num_samples,
        "seed": work.seed if work.train else None,
        "data": recipe.data.model_dump(mode="json", exclude=ONLY_SPEED),
        "loader": loader.name,
        "batch": [work.batch_size, work.world_size, recipe.optim.accumulate if work.train else 1],
        "kept as": runtime.cache_precision,
        "computed as": [runtime.teacher_precision, runtime.channels_last, runtime.deterministic],
        "device": torch.cuda.get_device_name(work.device)
        if gpu
        else f"cpu, {torch.get_num_threads()} threads",
        "torch": str(torch.__version__),
    }


def _epochs(recipe: Recipe, loader: Loader) -> int:
    if recipe.optim.max_steps is None:
        return recipe.optim.epochs
    return min(recipe.optim.epochs, -(-recipe.optim.max_steps // loader.steps_per_epoch))


def _make_room(folder: Path, needed: int, limit_gb: float, keep: set[Path]) -> None:
    """Remove caches, the one not written for longest first, until what is needed fits below the limit.

    A run that still uses one of them goes on, and fills it again.
    """
    others = [p for p in folder.iterdir() if p.is_dir() and p not in keep] if folder.is_dir() else []
    used = {p: _used(p) for p in others}
    total = needed + sum(size for size, _ in used.values())
    for path in sorted(others, key=lambda p: used[p][1]):
        if total <= limit_gb * 1e9:
            return
        shutil.rmtree(path, ignore_errors=True)
        total -= used[path][0]


def _used(folder: Path) -> tuple[int, float]:
    """Bytes on disk below a folder, and when it was last written."""
    states = [entry.stat() for entry in os.scandir(folder) if entry.is_file()]
    return sum(s.st_blocks * 512 for s in states), max((s.st_mtime for s in states), default=0.0)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
