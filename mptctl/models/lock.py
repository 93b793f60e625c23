"""The lock of a run folder: one process writes a folder at a time; a lock ends with its process."""

from __future__ import annotations

import contextlib
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
from mptctl.models.ownership import LOCK, Existing, FolderKind, refuse_existing_content, remove_half_written

# Content of a lock file: the number of the process that holds the lock, or nothing.
CONTENT = re.compile(rb"\d{0,10}\n?")
# Without following a link, waiting at a FIFO, or truncating a file.
OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Pause between two looks at a folder that another process holds.
POLL_SECONDS = 0.5
# Seconds that a process which takes a lock waits for others that only look, and its pause between attempts.
LOOKING_SECONDS, RETRY_SECONDS = 5.0, 0.01


@contextlib.contextmanager
def locked(folder: Path, kind: FolderKind, existing: Existing) -> Iterator[None]:
    """Make a folder and hold its lock until the ``with`` block ends.

    On entry, half-written files of a killed process are removed; other content stays, also with "replace"
    (see `remove_own`). On exit, the lock file is removed, and so are folders made here that are still empty.

    Args:
        folder: the folder to write.
        kind: the kind of content to be written.
        existing: how to treat present content.

    Raises:
        UsageError: another process holds the folder, or `refuse_existing_content` refuses it; nothing was
            changed.
        StorageError: the folder cannot be made.
    """
    refuse_unusable(folder, kind, existing)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with contextlib.ExitStack() as on_exit:
        on_exit.callback(_remove_empty_folders, missing)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        file = _open_lock(folder / LOCK, create=True)
        on_exit.callback(os.close, file)
        if not _try_to_lock(file, folder / LOCK):
            raise _busy_error(folder)
        on_exit.callback((folder / LOCK).unlink, missing_ok=True)
        # Checked again: another process may have written the folder since the first check.
        refuse_existing_content(folder, kind, existing)
        remove_half_written(folder, kind)
        _write_process_number(file, folder / LOCK)
        yield


def _remove_empty_folders(folders: list[Path]) -> None:
    """Remove those folders that are empty, in this order."""
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()


def refuse_unusable(folder: Path, kind: FolderKind, existing: Existing) -> None:
    """Raise the UsageError that `locked` would raise; hold and change nothing."""
    if not is_free(folder):
        raise _busy_error(folder)
    refuse_existing_content(folder, kind, existing)


def is_free(folder: Path) -> bool:
    """Tell whether no process holds a folder's lock; change nothing.

    Raises:
        UsageError: the folder's entry ``lock`` is not a lock file of mptctl's.
    """
    try:
        file = _open_lock(folder / LOCK, create=False)
    except FileNotFoundError:
        return True
    try:
        # A shared lock, so that two processes that only look do not disturb each other.
        return _flock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def list_held_folders(root: Path) -> list[Path]:
    """List the folders at or below a run root that other processes hold now, sorted by path."""
    held = []
    for lock in sorted(root.rglob(LOCK)):
        with contextlib.suppress(UsageError, StorageError):  # another program's file named lock
            if not is_free(lock.parent):
                held.append(lock.parent)
    return held


def wait_until_free(folder: Path, at_most: float = math.inf) -> None:
    """Wait while another process holds a folder, for example until a dying process ends.

    Args:
        folder: the folder; it may still be held when the function returns.
        at_most: longest wait, in seconds.
    """
    until = time.monotonic() + at_most
    while not is_free(folder) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _open_lock(path: Path, *, create: bool) -> int:
    """Open a lock file and return its descriptor.

    Raises:
        FileNotFoundError: there is no file, without ``create``.
        UsageError: the file is not a lock of mptctl's.
        StorageError: the file cannot be opened.
    """
    refusal = UsageError(f"{path}: is not a lock of mptctl's; move it away, or use another --name")
    try:
        # Before opening: to open a FIFO would wake up a process that waits at its other end.
        if (not create or os.path.lexists(path)) and not stat.S_ISREG(path.lstat().st_mode):
            raise refusal
        file = os.open(path, OPEN_FLAGS | (os.O_CREAT if create else 0), 0o666)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not create:
            raise
        raise storage_error(path, error) from error
    if os.fstat(file).st_nlink > 1 or not CONTENT.fullmatch(os.pread(file, 32, 0)):
        os.close(file)
        raise refusal
    return file


def _try_to_lock(file: int, path: Path) -> bool:
    """Lock an open file; return False if another process holds the lock or has just removed the file.

    Waits while other processes only look whether the lock is held; see `is_free`.
    """
    until = time.monotonic() + LOOKING_SECONDS
    while not _flock(file, fcntl.LOCK_EX):
        # A shared lock can be had beside those of processes that look, and not beside a holder's.
        if not _flock(file, fcntl.LOCK_SH) or time.monotonic() > until:
            return False
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(RETRY_SECONDS)
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def _flock(file: int, kind: int) -> bool:
    """Take a shared or exclusive lock of an open file; return False if another process's lock forbids it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_process_number(file: int, path: Path) -> None:
    """Write this process's number into a lock file; raise StorageError if the disk is full."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        raise storage_error(path, error) from error


def _busy_error(folder: Path) -> UsageError:
    """The error for a folder that another process holds."""
    return UsageError(f"{folder}: another process is training into it; wait for it, or use another --name")
