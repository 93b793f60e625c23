"""A folder in the temporary directory: ours alone, gone afterwards, and after a kill removed by a later run."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mptctl.errors import StorageError
from mptctl.files.writing import storage_error

PREFIX = "mptctl-"
LOCK = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that nobody else can enter, and remove it with all that is in it.

    A program that is killed cannot remove its own; a later one of the same user does. Whether a program still goes on
    is told by the lock in the folder, which the kernel drops with the process; not by the number of a process, which
    in another container is another process or none.

    Raises:
        StorageError: the temporary directory cannot be written.
    """
    parent = temporary_directory()
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
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of this user's programs that were killed and could not do it themselves.

    Args:
        parent: the temporary directory, which others may write too: whatever is not surely ours stays.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_ours(folder.lstat(), stat.S_ISDIR) and _is_ours((folder / LOCK).lstat(), stat.S_ISREG):
                _remove_unless_held(folder)


def temporary_directory() -> Path:
    """Where this machine has files that need not last: ``TMPDIR``, or what the system says.

    Raises:
        StorageError: nothing of that can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # its message names all folders that were tried
        raise StorageError(f"{error.strerror}; set TMPDIR to a folder that can be written") from error


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Whether something is of that kind, this user's, and closed to everybody else."""
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove_unless_held(folder: Path) -> None:
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where its program goes on
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: while something is left, a later program knows it by that."""
    with suppress(OSError):
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                shutil.rmtree(inner, ignore_errors=True)
            elif inner.name != LOCK:
                inner.unlink()
        if not any(inner.name != LOCK for inner in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
