"""Makes private temporary folders, removes them afterwards, and removes those of killed processes."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mptctl.errors import StorageError
from mptctl.files.kept_names import is_kept
from mptctl.files.writing import storage_error

PREFIX = "mptctl-"
# File that marks a folder as mptctl's scratch; the folder's program holds a lock on the file.
MARK = "scratch.json"
# Bytes to read of a mark; marks are shorter.
MARK_BYTES = 1000


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a private temporary folder, and remove it with its content when the ``with`` block ends.

    First, folders of this user's killed programs are removed. A lock on a folder's mark, which the kernel
    drops with the process, tells whether its program still runs.

    Raises:
        StorageError: the temporary directory cannot be written.
    """
    parent = temporary_directory()
    remove_leftovers(parent)
    # The name is known before the folder exists, so that also after a signal `finally` removes the folder.
    folder = parent / f"{PREFIX}{secrets.token_urlsafe(6)}"
    mark: int | None = None
    try:
        try:
            folder.mkdir(mode=0o700)
            # Locked and complete before it gets its name, so that no other process finds an unlocked mark.
            mark = os.open(folder / f"{MARK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(mark, fcntl.LOCK_EX)
            os.write(mark, mark_of(folder))
            os.rename(folder / f"{MARK}.new", folder / MARK)
        except OSError as error:
            raise storage_error(parent / PREFIX, error) from error
        yield folder
    finally:
        _remove(folder)
        if mark is not None:
            os.close(mark)


def remove_leftovers(parent: Path) -> None:
    """Remove the scratch folders of this user's killed programs.

    Only private folders with a valid, unlocked mark are removed. A folder stays if it has a file with the
    name of a file of runs, splits or studies, since somebody may have put results there.

    Args:
        parent: the temporary directory; other users may write it too.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if stat.S_ISDIR(folder.lstat().st_mode) and _is_private(folder.lstat()):
                _remove_unless_held(folder)


def temporary_directory() -> Path:
    """The folder for temporary files: ``TMPDIR``, or the system's.

    Raises:
        StorageError: no such folder can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # the message names all folders that were tried
        raise StorageError(f"{error.strerror}; set TMPDIR to a folder that can be written") from error


def _is_private(status: os.stat_result) -> bool:
    """Tell whether a file or folder belongs to this user, with no rights for others."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove_unless_held(folder: Path) -> None:
    """Remove a scratch folder unless its program runs or the folder is not mptctl's.

    Raises:
        OSError: the folder is held, has no mark, or disappears meanwhile.
    """
    if not stat.S_ISREG((folder / MARK).lstat().st_mode):
        return  # opening a FIFO would wake up a process that waits at its other end
    # Opened for reading, which is enough for a lock: `ray_watchdog` kills processes that write in a folder.
    mark = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError if the program still runs
        if (
            _is_private(os.fstat(mark))
            and os.pread(mark, MARK_BYTES, 0) == mark_of(folder)
            and not any(is_kept(name) for _, _, names in os.walk(folder) for name in names)
        ):
            _remove(folder)
    finally:
        os.close(mark)


def mark_of(folder: Path) -> bytes:
    """Return the content of the mark of a scratch folder, which names the folder."""
    return json.dumps({"mptctl scratch": folder.name}).encode()


def _remove(folder: Path) -> None:
    """Remove a folder and its content as far as possible; the mark goes last, for a later attempt."""
    with suppress(OSError):
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                shutil.rmtree(inner, ignore_errors=True)
            elif inner.name != MARK:
                inner.unlink()
        if not any(inner.name != MARK for inner in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
