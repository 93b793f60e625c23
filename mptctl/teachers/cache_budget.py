"""The disk that the teacher cache takes: one limit that holds for all runs of a folder together."""

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

from mptctl.errors import UsageError
from mptctl.files import locked_folder, storage_error
from mptctl.recipe import RuntimeRecipe

# The folders that `LogitFiles` makes; nothing else is ever removed.
_CACHE = re.compile(r"(old|ref)-[0-9a-f]{16}")
_CLAIM = re.compile(r".+-[0-9]+-[0-9a-f]{8}\.claim")


class CacheBudget:
    """The room that a run takes in the cache's folder.

    `reserve` says what the run may come to take, and writes nothing; `evict` makes room for it, since that
    may cost other runs what they kept. From then on a file in the folder, its claim, says what this process
    may come to take; it is locked, so that the others see that the process is alive. What a run that is alive
    has claimed is neither removed nor given away.

    Args:
        folder: of the cache.
        runtime: how much disk all of it may take, and in which type answers are kept.

    Attributes:
        is_open: whether room was made for all that is reserved.
    """

    def __init__(self, folder: Path, runtime: RuntimeRecipe) -> None:
        self.folder = folder
        self.is_open = False
        self._runtime = runtime
        self._reserved: dict[Path, int] = {}

    @property
    def notes(self) -> list[str]:
        """A note that names the folder and the largest size of kept answers; none where none are kept."""
        if not self._reserved:
            return []
        size = _in_words(sum(self._reserved.values()))
        return [f"teacher logits are kept in {self.folder}: up to {size} ({self._runtime.cache_precision})"]

    def reserve(self, needed: dict[Path, int]) -> None:
        """Say what will be taken: bytes of each folder. Nothing is written yet.

        Raises:
            UsageError: what is reserved is more than ``runtime.cache_limit_gb``, or than what other runs that
                are under way leave of it.
        """
        self.is_open = False
        self._reserved |= needed
        total, limit = sum(self._reserved.values()), self._runtime.cache_limit_gb
        if total > limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {limit:g}: the teacher logits of this run take {_in_words(total)}; "
                "raise it, or train without the cache"
            )
        if self.folder.is_dir():
            with locked_folder(self.folder):
                self._refuse_if_taken(_claims_of_others(self.folder))

    def evict(self) -> None:
        """Claim what is reserved, and make room for it.

        Caches that no run under way has claimed are removed, the one not written for longest first.

        Raises:
            UsageError: another run has claimed the room since.
            StorageError: the folder cannot be written.
        """
        with locked_folder(self.folder):
            others = _claims_of_others(self.folder)
            self._refuse_if_taken(others)
            _write_claim(self.folder, self._reserved)
            self.is_open = True
            taken = _together(others, self._reserved)
            idle = {
                path: _on_disk(path)
                for path in self.folder.iterdir()
                if path.name not in taken and _CACHE.fullmatch(path.name) and not path.is_symlink()
            }
            total = sum(taken.values()) + sum(size for size, _ in idle.values())
            for path in sorted(idle, key=lambda p: idle[p][1]):
                if total <= self._runtime.cache_limit_gb * 1e9:
                    return
                shutil.rmtree(path, ignore_errors=True)
                total -= idle[path][0]

    def _refuse_if_taken(self, others: dict[str, int]) -> None:
        together, limit = sum(_together(others, self._reserved).values()), self._runtime.cache_limit_gb
        if together > limit * 1e9:
            raise UsageError(
                f"runtime.cache_limit_gb {limit:g}: other runs that are under way take up to "
                f"{_in_words(sum(others.values()))} of {self.folder}, with this one it is "
                f"{_in_words(together)}; raise it, wait for them, or train without the cache"
            )


# The claim of this process in each cache folder: the locked file, and its path.
_own: dict[Path, tuple[int, Path]] = {}


def _write_claim(folder: Path, claimed: dict[Path, int]) -> None:
    """Say what this process may come to take, in place of what it said before; the folder is held."""
    content = json.dumps({path.name: size for path, size in claimed.items()}).encode()
    key = folder.resolve()
    if key in _own and not _is_at(*_own[key]):
        os.close(_own.pop(key)[0])
    path = key / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.claim"
    try:
        if key not in _own:
            _own[key] = (os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), path)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(_own[key][0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(_own[key][0], 0)
        os.pwrite(_own[key][0], content, 0)
    except OSError as error:
        raise storage_error(path, error) from error


def _claims_of_others(folder: Path) -> dict[str, int]:
    """Bytes that other processes that are alive may come to take, by name of the cache's folder.

    The caller holds the folder, so that no claim is read between its making and its locking.
    """
    claimed: dict[str, int] = {}
    own = _own.get(folder.resolve())
    for path in folder.iterdir():
        if not _CLAIM.fullmatch(path.name) or (own is not None and _is_at(own[0], path)):
            continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)  # its process is gone
        except BlockingIOError:
            for name, size in _read_claim(file).items():
                claimed[name] = max(claimed.get(name, 0), size)
        except OSError:
            continue
        finally:
            os.close(file)
    return {name: max(size, _on_disk(folder / name)[0]) for name, size in claimed.items()}


def _read_claim(file: int) -> dict[str, int]:
    try:
        claims: dict[str, int] = json.loads(os.pread(file, 1 << 20, 0))  # a run claims three folders
        return {name: int(size) for name, size in claims.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _together(others: dict[str, int], own: dict[Path, int]) -> dict[str, int]:
    """Bytes by cache; one that several runs fill is there once."""
    mine = {path.name: size for path, size in own.items()}
    return {name: max(others.get(name, 0), mine.get(name, 0)) for name in {*others, *mine}}


def _on_disk(folder: Path) -> tuple[int, float]:
    """Bytes on disk below a folder, and when it was last written; 0 where it has just been removed."""
    try:
        states = [entry.stat() for entry in os.scandir(folder) if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        states = []
    return sum(s.st_blocks * 512 for s in states), max((s.st_mtime for s in states), default=0.0)


def _in_words(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
