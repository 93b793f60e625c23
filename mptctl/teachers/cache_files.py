"""The files of the teacher cache: one an epoch, filled batch by batch, with a digest for each batch."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.files import storage_error

DIGEST_BYTES = 16

# The file in a folder that holds the folder's cache key.
KEY_FILE = "question.json"


class _OpenFile(NamedTuple):
    """The open file of an epoch: its epoch, descriptor and path."""

    epoch: int
    file: int
    path: Path


class LogitFiles:
    """The cached logits of one cache key, in a folder with one file an epoch.

    A file has first the digests, one for each position in the epoch's order, of which those are used where a
    batch begins. Then come the logits in that order. A batch is valid only if its digest fits, so a write
    that was cut short does no harm.

    Args:
        root: folder of the whole cache; the key's folder is made in it when first needed.
        cache_key: everything that the logits depend on, with the teacher's ``role``.
        rows: number of samples of an epoch.
        width: number of logits of a sample.
        dtype: type of the stored logits.

    Attributes:
        folder: of the key.
    """

    def __init__(
        self, root: Path, cache_key: dict[str, Any], rows: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self._open: _OpenFile | None = None
        self._text = json.dumps(cache_key, indent=2, sort_keys=True)
        self._key = hashlib.blake2b(self._text.encode(), digest_size=DIGEST_BYTES).digest()
        self.folder = root / f"{cache_key['role']}-{self._key.hex()[:16]}"
        self._rows = rows
        self._width = width
        self._type = dtype

    @property
    def epoch_bytes(self) -> int:
        """Size of a full file, in bytes."""
        return self._rows * (DIGEST_BYTES + self._width * self._type.itemsize)

    def read(self, epoch: int, start: int, index: NDArray[np.int64]) -> NDArray[Any] | None:
        """Read the (B, width) logits of a batch; None if they are missing, damaged or of other samples.

        Args:
            epoch: counted from 0.
            start: position in the epoch's order where the batch begins.
            index: (B,) samples of the batch.

        Raises:
            StorageError: the file cannot be read or made.
        """
        file, path = self._open_file(epoch)
        try:
            digest = os.pread(file, DIGEST_BYTES, start * DIGEST_BYTES)
            payload = bytearray(os.pread(file, len(index) * self._row_bytes, self._offset_of_logits(start)))
        except OSError as error:
            raise storage_error(path, error) from error
        if digest != self._digest(epoch, start, index, payload):
            return None
        return np.frombuffer(payload, dtype=self._type).reshape(len(index), self._width)

    def write(self, epoch: int, start: int, index: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Write the (B, width) logits of a batch, and their digest; the caller has locked the epoch's file.

        The other arguments are those of `read`.

        Raises:
            StorageError: the disk is full, or the file cannot be written.
        """
        file, path = self._open_file(epoch)
        payload = rows.tobytes()
        digest = self._digest(epoch, start, index, payload)
        for content, offset in ((payload, self._offset_of_logits(start)), (digest, start * DIGEST_BYTES)):
            try:
                if os.pwrite(file, content, offset) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                raise storage_error(path, error, len(content)) from error

    @contextmanager
    def locked(self, epoch: int, *, wait: bool = True) -> Iterator[bool]:
        """Lock an epoch's file against other processes for the block; the lock ends with the process too.

        Args:
            epoch: counted from 0.
            wait: until no other process has it locked.

        Yields:
            Whether the file is locked; always True if ``wait`` is.
        """
        file, path = self._open_file(epoch)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    @property
    def _row_bytes(self) -> int:
        """Bytes of one sample's logits."""
        return self._width * self._type.itemsize

    def _offset_of_logits(self, start: int) -> int:
        """Byte of the file where the logits of the sample at a position begin."""
        return self._rows * DIGEST_BYTES + start * self._row_bytes

    def _open_file(self, epoch: int) -> tuple[int, Path]:
        """Return descriptor and path of an epoch's file, open until another epoch's is asked for.

        Folder, file and key file are made if needed; StorageError is raised if they cannot be.
        """
        if self._open is None or self._open.epoch != epoch:
            self.close()
            path = self.folder / f"epoch-{epoch:04d}.bin"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._open = _OpenFile(epoch, os.open(path, os.O_RDWR | os.O_CREAT, 0o666), path)
                # In plain text, so that one can see what the folder holds.
                (self.folder / KEY_FILE).write_text(self._text, encoding="utf-8")
            except OSError as error:
                raise storage_error(path, error) from error
        return self._open.file, self._open.path

    def close(self) -> None:
        """Close the open file, if any."""
        if self._open is not None:
            os.close(self._open.file)
            self._open = None

    def __del__(self) -> None:
        self.close()

    def _digest(self, epoch: int, start: int, index: NDArray[np.int64], payload: bytes | bytearray) -> bytes:
        """Compute the digest of a batch's logits, its samples, its position and the cache key."""
        state = hashlib.blake2b(self._key, digest_size=DIGEST_BYTES)
        state.update(f"{epoch} {start} {len(payload)} ".encode())
        state.update(index.tobytes())
        state.update(payload)
        return state.digest()


def round_logits(logits: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round logits to a type so that every row keeps its prediction (the first of the largest logits).

    Rounding to the nearest number can make an earlier class tie with the predicted one, and so become the
    prediction. That would change focal weights, so the logit of such a class is rounded down instead. Finite
    logits stay finite.

    Args:
        logits: (N, C) float32.
        dtype: float16, or float32, which changes nothing.

    Returns:
        (N, C) of the type, contiguous.
    """
    if dtype == logits.dtype:
        return np.ascontiguousarray(logits)
    high = np.finfo(dtype).max
    low = np.nextafter(-high, dtype.type(0))  # so that one finite number is left below
    finite = np.where(np.isinf(logits), logits, np.clip(logits, np.float32(low), np.float32(high)))
    rounded = finite.astype(dtype)
    if logits.shape[1]:
        predicted = logits.argmax(axis=1)[:, None]  # numpy's argmax is the first of the largest
        largest = np.take_along_axis(rounded, predicted, axis=1)
        earlier_ties = (np.arange(logits.shape[1]) < predicted) & (rounded == largest)
        rounded = np.where(earlier_ties, np.nextafter(largest, dtype.type(-np.inf)), rounded)
    return np.ascontiguousarray(rounded)
