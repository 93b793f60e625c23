"""The budget of disk space of the teacher cache: one limit for all runs that share a cache folder."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mptctl.errors import UsageError
from mptctl.files import locked_folder, storage_error
from mptctl.recipe import RuntimeRecipe

# Names of the folders that `LogitFiles` makes. Only these are ever removed.
_CACHE = re.compile(r"(old|ref)-[0-9a-f]{16}")
# A file in such a folder, which a process keeps locked while it may fill the cache; it holds the most bytes.
_CLAIM = "claim"
# Descriptors of the claims of this process, which hold while they are open, by the folder of all caches.
_own: dict[Path, list[int]] = {}


class CacheBudget:
    """The disk space that a process may use in a cache folder.

    `reserve` checks the needed space against the limit, and writes nothing. `evict` claims each cache that
    the process will fill, in place of its claims so far, and removes caches that nobody has claimed. A claim
    is a locked file in the folder of the cache, by which others see that the process is alive, and the bytes
    that the cache may come to. No cache with the claim of a living process is removed.

    Args:
        folder: of the cache.
        runtime: gives the limit on the whole folder, and the type of cached logits.

    Attributes:
        is_open: whether `evict` has made room for everything reserved so far.
    """

    def __init__(self, folder: Path, runtime: RuntimeRecipe) -> None:
        self.folder = folder
        self.is_open = False
        self._runtime = runtime
        self._reserved: dict[Path, int] = {}

    @property
    def notes(self) -> list[str]:
        """A note that names the folder and the reserved space; no note if nothing is reserved."""
        if not self._reserved:
            return []
        size = _format_bytes(sum(self._reserved.values()))
        return [f"teacher logits are kept in {self.folder}: up to {size} ({self._runtime.cache_precision})"]

    def reserve(self, needed: dict[Path, int]) -> None:
        """Add to the reserved space, and check it against the limit; sets `is_open` to False.

        Args:
            needed: bytes at most of each cache, by its folder.

        Raises:
            UsageError: the reserved space is more than ``runtime.cache_limit_gb``, or more than the claims of
                other processes leave of it.
        """
        self.is_open = False
        self._reserved |= needed
        total, limit = sum(self._reserved.values()), self._runtime.cache_limit_gb
        if total > limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {limit:g}: the teacher logits of this run take "
                f"{_format_bytes(total)}; raise it, or train without the cache"
            )
        if self.folder.is_dir():
            with locked_folder(self.folder):
                self._renew_claims()

    def evict(self) -> None:
        """Claim the reserved space, and remove caches until it is free; sets `is_open` to True.

        Only caches that no living process has claimed are removed, those not claimed or written for longest
        first.

        Raises:
            UsageError: another process has claimed the space since `reserve`.
            StorageError: the folder cannot be written.
        """
        with locked_folder(self.folder):
            claimed = self._renew_claims()
            for cache in self._reserved:
                _claim(cache, claimed[cache.name])
            self.is_open = True
            idle = {path: _disk_use(path) for path in _caches(self.folder) if path.name not in claimed}
            total = sum(claimed.values()) + sum(use.size for use in idle.values())
            for path in sorted(idle, key=lambda path: idle[path].written):
                if total <= self._runtime.cache_limit_gb * 1e9:
                    return
                shutil.rmtree(path, ignore_errors=True)
                total -= idle[path].size

    def _renew_claims(self) -> dict[str, int]:
        """Give back what this process has claimed, and add what it has reserved to the claims of others.

        Of several claims of a cache the largest counts, since runs fill a shared cache once. The caller has
        locked the folder.

        Returns:
            Bytes by the name of each cache that other processes have claimed or this one has reserved.

        Raises:
            UsageError: the claims of others and the reserved space are above the limit together.
        """
        for claim in _own.pop(self.folder.resolve(), ()):
            os.close(claim)
        others = {path.name: size for path in _caches(self.folder) if (size := _claimed_by_others(path))}
        together = others | {
            path.name: max(size, others.get(path.name, 0)) for path, size in self._reserved.items()
        }
        limit = self._runtime.cache_limit_gb
        if sum(together.values()) > limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {limit:g}: other runs that are under way take up to "
                f"{_format_bytes(sum(others.values()))} of {self.folder}, with this one it is "
                f"{_format_bytes(sum(together.values()))}; raise it, wait for them, or train without the "
                "cache"
            )
        return together


def _caches(folder: Path) -> list[Path]:
    """The folders of caches in the folder of all."""
    return [path for path in folder.iterdir() if _CACHE.fullmatch(path.name) and not path.is_symlink()]


def _claim(cache: Path, size: int) -> None:
    """Claim a cache until this process ends or claims others; StorageError if that cannot be written."""
    try:
        cache.mkdir(exist_ok=True)
        file = os.open(cache / _CLAIM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _own.setdefault(cache.parent.resolve(), []).append(file)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        os.ftruncate(file, 0)
        os.pwrite(file, str(size).encode(), 0)
    except OSError as error:
        raise storage_error(cache / _CLAIM, error) from error


def _claimed_by_others(cache: Path) -> int:
    """The bytes that another living process may fill a cache to, or has; 0 where none has claimed it."""
    with suppress(OSError, ValueError), open(cache / _CLAIM, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # locked: a process is alive that has claimed it
            return max(int(file.read()), _disk_use(cache).size)
    return 0


class _DiskUse(NamedTuple):
    """Bytes that the files of a folder take on disk, and the time of the last write to one of them."""

    size: int
    written: float


def _disk_use(folder: Path) -> _DiskUse:
    """Measure the files of a cache's folder; zeros if it is empty or was just removed."""
    try:
        states = [entry.stat() for entry in os.scandir(folder) if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        states = []
    return _DiskUse(
        size=sum(state.st_blocks * 512 for state in states),
        written=max((state.st_mtime for state in states), default=0.0),
    )


def _format_bytes(count: int) -> str:
    """Write a number of bytes in MB, or in GB from 0.1 GB on."""
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
