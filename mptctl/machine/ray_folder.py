"""Ray's folder for the time of a search: in the temporary directory, ours alone, and gone afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.files import storage_error

PREFIX = "mptctl-"
LOCK = "lock"
# Ray makes its own folder with mode 0777, hence one below ours.
INNER = "r"
# The longest path that Ray makes a socket of, below ours (ray 2.60, _private/node.py), with the highest number that
# Linux gives a process; unix(7) has room for 107 bytes.
SOCKET = f"{INNER}/session_2025-01-01_00-00-00_000000_4194304/sockets/plasma_store"
MOST_SOCKET_BYTES = 107


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Make a folder for Ray that nobody else can enter, and remove it afterwards.

    A search that is killed cannot remove its own; a later one of the same user does. Whether a search still goes on is
    told by the lock in the folder, which the kernel drops with the process; not by the number of a process, which in
    another container is another process or none.

    Raises:
        UsageError: the temporary directory's path is too long for Ray's sockets.
        StorageError: the temporary directory cannot be written.
    """
    parent = Path(tempfile.gettempdir())
    _refuse_long(parent)
    remove_leftovers(parent)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # of mode 0700
    except OSError as error:
        raise storage_error(parent / PREFIX, error) from error
    lock = None
    try:
        # Held before it has its name, so that nobody finds a lock that is still free.
        lock = os.open(folder / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(folder / f"{LOCK}.new", folder / LOCK)
        yield folder / INNER
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of this user's searches that were killed and could not do it themselves.

    Args:
        parent: the temporary directory, which others may write too: whatever is not surely ours stays.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_ours(folder.lstat(), stat.S_ISDIR) and _is_ours((folder / LOCK).lstat(), stat.S_ISREG):
                _remove_unless_held(folder)


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Whether something is of that kind, this user's, and closed to everybody else."""
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove_unless_held(folder: Path) -> None:
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where its search goes on
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: while something is left, a later search knows it by that."""
    shutil.rmtree(folder / INNER, ignore_errors=True)
    if not (folder / INNER).exists():
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_long(parent: Path) -> None:
    there = len(os.fsencode(parent / f"{PREFIX}12345678" / SOCKET))
    if there > MOST_SOCKET_BYTES:
        raise UsageError(
            f"{parent}: {there - MOST_SOCKET_BYTES} characters too long for Ray's sockets; set TMPDIR to a shorter path"
        )
