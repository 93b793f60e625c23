"""The lock of a run folder: one process writes it at a time; the kernel drops the lock with the process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from mptctl.errors import StorageError, UsageError
from mptctl.files import storage_error
from mptctl.models.ownership import LOCK, Existing, Kind, refuse_foreign, remove_halves

# A lock holds the number of the process that took it.
CONTENT = re.compile(rb"\d{0,10}\n?")
# A link is not followed, a FIFO not waited for, and a file not truncated.
CAREFULLY = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Seconds between two looks at a folder that another process, which may be dying, still holds.
LOOK_EVERY = 0.5


@contextlib.contextmanager
def locked(folder: Path, kind: Kind, existing: Existing) -> Iterator[None]:
    """Make a folder, and hold it against every other process.

    Nothing is removed but what a kill left half written; whoever overwrites does so with `remove_own`.

    Args:
        folder: that will be written.
        kind: what will be in it.
        existing: the fate of its present content.

    Raises:
        UsageError: another process writes it, or what it holds forbids it, see `refuse_foreign`; nothing was
            changed.
        StorageError: it cannot be made.
    """
    refuse_unusable(folder, kind, existing)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        file = _open(folder / LOCK, create=True)
        try:
            if not _take(file, folder / LOCK):
                raise _busy(folder)
            try:
                # Once more, since another process may have come and gone since.
                refuse_foreign(folder, kind, existing)
                remove_halves(folder, kind)
                _write_number(file, folder / LOCK)
                yield
            finally:
                (folder / LOCK).unlink(missing_ok=True)
        finally:
            os.close(file)
    finally:
        for path in missing:
            with contextlib.suppress(OSError):  # only what stayed empty goes
                path.rmdir()


def refuse_unusable(folder: Path, kind: Kind, existing: Existing) -> None:
    """Refuse what `locked` would refuse, without holding or changing anything.

    Raises:
        UsageError: as `locked`.
    """
    if not is_free(folder):
        raise _busy(folder)
    refuse_foreign(folder, kind, existing)


def is_free(folder: Path) -> bool:
    """Tell whether no process holds a folder; changes nothing.

    Raises:
        UsageError: what is called ``lock`` in it is not one of ours.
    """
    try:
        file = _open(folder / LOCK, create=False)
    except FileNotFoundError:
        return True
    try:
        # Shared, so that two that only look are not in each other's way.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def held_below(root: Path) -> list[Path]:
    """The folders at or below a run root that other processes write now, sorted."""
    held = []
    for lock in sorted(root.rglob(LOCK)):
        with contextlib.suppress(UsageError, StorageError):  # something else that is called so
            if not is_free(lock.parent):
                held.append(lock.parent)
    return held


def wait_until_free(folder: Path, at_most: float = math.inf) -> None:
    """Wait while another process holds a folder: for one that is dying, whose work is to be gone on with.

    Args:
        folder: that it holds.
        at_most: seconds.
    """
    until = time.monotonic() + at_most
    while not is_free(folder) and time.monotonic() < until:
        time.sleep(LOOK_EVERY)


def _open(path: Path, *, create: bool) -> int:
    """Open a lock; FileNotFoundError where there is none and none is to be made."""
    refusal = UsageError(f"{path}: is not a lock of mptctl's; move it away, or use another --name")
    try:
        # Looked at first: opening a FIFO would wake up whoever waits at its other end.
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise refusal
        file = os.open(path, CAREFULLY | (os.O_CREAT if create else 0), 0o666)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not create:
            raise
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise refusal from error
        raise storage_error(path, error) from error
    status = os.fstat(file)
    if (
        not stat.S_ISREG(status.st_mode)
        or status.st_nlink > 1
        or not CONTENT.fullmatch(os.pread(file, 32, 0))
    ):
        os.close(file)
        raise refusal
    return file


def _take(file: int, path: Path) -> bool:
    """Lock an open file; False where another process holds it, or has given it back in between."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), path.lstat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _write_number(file: int, path: Path) -> None:
    """Write down which process holds a lock; StorageError where the disk is full."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        raise storage_error(path, error) from error


def _busy(folder: Path) -> UsageError:
    return UsageError(f"{folder}: another process is training into it; wait for it, or use another --name")
