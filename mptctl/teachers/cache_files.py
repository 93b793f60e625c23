"""The files of the teacher cache: one an epoch, filled batch by batch, trusted by digest only."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.files import storage_error

DIGEST_BYTES = 16


# The file in a folder that holds its cache key.
KEY_FILE = "question.json"


class LogitFiles:
    """The kept logits of one cache key: a file an epoch.

    A file holds a digest for each place of the epoch's order (those where a batch begins are used), then the
    logits in that order. Only a digest that fits makes a batch valid, so nothing needs to be written in one
    piece.
    """

    def __init__(
        self, root: Path, cache_key: dict[str, Any], rows: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self._open: tuple[int, int, Path] | None = None
        self._text = json.dumps(cache_key, indent=2, sort_keys=True)
        self._key = hashlib.blake2b(self._text.encode(), digest_size=DIGEST_BYTES).digest()
        self.folder = root / f"{cache_key['role']}-{self._key.hex()[:16]}"
        self._rows = rows
        self._width = width
        self._type = dtype

    @property
    def epoch_bytes(self) -> int:
        """Size of a whole epoch's file."""
        return self._rows * (DIGEST_BYTES + self._width * self._type.itemsize)

    def read(self, epoch: int, start: int, index: NDArray[np.int64]) -> NDArray[Any] | None:
        """(B, width) logits of the batch that begins at ``start``; None where they are missing or damaged."""
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
        """Keep the logits of a batch; the caller holds the lock."""
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
        """Hold an epoch's file against other processes; the kernel lets go of it with the process.

        Args:
            epoch: whose file.
            wait: until nobody else holds it.

        Yields:
            Whether it is held; always, after waiting.
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
        return self._width * self._type.itemsize

    def _offset_of_logits(self, start: int) -> int:
        return self._rows * DIGEST_BYTES + start * self._row_bytes

    def _open_file(self, epoch: int) -> tuple[int, Path]:
        if self._open is None or self._open[0] != epoch:
            self.close()
            path = self.folder / f"epoch-{epoch:04d}.bin"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._open = (epoch, os.open(path, os.O_RDWR | os.O_CREAT, 0o666), path)
                # The cache key in plain text, for whoever wonders what this folder is.
                (self.folder / KEY_FILE).write_text(self._text, encoding="utf-8")
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


def narrow(logits: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round logits so that every row keeps its answer.

    Rounding to the nearest can make an earlier class tie with the largest one and so become the answer (the
    first of the largest), which would change focal weights. Such a class is rounded down instead, to the next
    number below. Finite logits stay finite.

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
