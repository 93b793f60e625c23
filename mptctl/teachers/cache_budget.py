"""The budget of disk space of the teacher cache: one limit for all runs that share a cache folder."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mptctl.errors import UsageError
from mptctl.files import locked_folder, storage_error
from mptctl.recipe import RuntimeRecipe

# Names of the folders that `LogitFiles` makes. Only these and claims of ended processes are ever removed.
_CACHE = re.compile(r"(old|ref)-[0-9a-f]{16}")
_CLAIM = re.compile(r".+-[0-9]+-[0-9a-f]{8}\.claim")


class CacheBudget:
    """The disk space that a process may use in a cache folder.

    `reserve` checks the needed space against the limit, and writes nothing. `evict` writes a claim and
    removes caches that nobody has claimed. A claim is a file in the folder with the bytes that a process may
    use. The process keeps its claim locked, by which others see that it is alive. No cache with the claim of
    a living process is removed.

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
                self._refuse_if_taken(_claims_of_others(self.folder))

    def evict(self) -> None:
        """Claim the reserved space, and remove caches until it is free; sets `is_open` to True.

        Only caches that no living process has claimed are removed, those not written for longest first.

        Raises:
            UsageError: another process has claimed the space since `reserve`.
            StorageError: the folder cannot be written.
        """
        with locked_folder(self.folder):
            others = _claims_of_others(self.folder)
            self._refuse_if_taken(others)
            _write_claim(self.folder, self._reserved)
            self.is_open = True
            claimed = _merge_claims(others, self._reserved)
            idle = {
                path: _disk_use(path)
                for path in self.folder.iterdir()
                if path.name not in claimed and _CACHE.fullmatch(path.name) and not path.is_symlink()
            }
            total = sum(claimed.values()) + sum(use.size for use in idle.values())
            for path in sorted(idle, key=lambda path: idle[path].written):
                if total <= self._runtime.cache_limit_gb * 1e9:
                    return
                shutil.rmtree(path, ignore_errors=True)
                total -= idle[path].size

    def _refuse_if_taken(self, others: dict[str, int]) -> None:
        """Raise UsageError if the claims of others and the reserved space are above the limit together."""
        together, limit = sum(_merge_claims(others, self._reserved).values()), self._runtime.cache_limit_gb
        if together > limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {limit:g}: other runs that are under way take up to "
                f"{_format_bytes(sum(others.values()))} of {self.folder}, with this one it is "
                f"{_format_bytes(together)}; raise it, wait for them, or train without the cache"
            )


class _OwnClaim(NamedTuple):
    """The claim of this process: descriptor of the locked file, and its path."""

    file: int
    path: Path


# By cache folder.
_own: dict[Path, _OwnClaim] = {}


def _write_claim(folder: Path, claimed: dict[Path, int]) -> None:
    """Write the claim of this process in place of its last one, and keep it locked until the process ends.

    Args:
        folder: of the cache; the caller has locked it.
        claimed: bytes at most of each cache, by its folder.

    Raises:
        StorageError: the claim cannot be written.
    """
    content = json.dumps({path.name: size for path, size in claimed.items()}).encode()
    key = folder.resolve()
    if key in _own and not _is_at(*_own[key]):
        os.close(_own.pop(key).file)  # somebody has removed or replaced the file
    path = key / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.claim"
    try:
        if key not in _own:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            _own[key] = _OwnClaim(file, path)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(_own[key].file, 0)
        os.pwrite(_own[key].file, content, 0)
    except OSError as error:
        raise storage_error(path, error) from error


def _claims_of_others(folder: Path) -> dict[str, int]:
    """Read the claims of other living processes, and remove those of ended ones.

    The caller has locked the folder, so that no claim is read between its creation and its locking.

    Returns:
        By name of each claimed cache, the bytes of its largest claim, or its size on disk if that is larger.
    """
    claimed: dict[str, int] = {}
    own = _own.get(folder.resolve())
    for path in folder.iterdir():
        if not _CLAIM.fullmatch(path.name) or (own is not None and _is_at(own.file, path)):
            continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)  # no lock: its process has ended
        except BlockingIOError:  # locked: its process is alive
            for name, size in _read_claim(file).items():
                claimed[name] = max(claimed.get(name, 0), size)
        except OSError:
            continue
        finally:
            os.close(file)
    return {name: max(size, _disk_use(folder / name).size) for name, size in claimed.items()}


def _read_claim(file: int) -> dict[str, int]:
    """Read bytes by name of the cache from an open claim; {} if it is damaged."""
    try:
        # 1 MB is far more than the claim of a run's few caches takes.
        claims: dict[str, int] = json.loads(os.pread(file, 1 << 20, 0))
        return {name: int(size) for name, size in claims.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _is_at(file: int, path: Path) -> bool:
    """Tell whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _merge_claims(others: dict[str, int], own: dict[Path, int]) -> dict[str, int]:
    """Return bytes by name of the cache: the larger claim of two, since runs fill a shared cache once."""
    own_by_name = {path.name: size for path, size in own.items()}
    return {name: max(others.get(name, 0), own_by_name.get(name, 0)) for name in {*others, *own_by_name}}


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
