"""A folder in the temporary directory: ours alone, gone afterwards; after a kill a later run removes it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from mptctl.errors import StorageError
from mptctl.files.model import Model
from mptctl.files.output_kinds import is_kept
from mptctl.files.writing import storage_error

PREFIX = "mptctl-"
# The file by which a folder is known as scratch of ours; its program holds a lock on it.
MARK = "scratch.json"
# No mark is longer.
MARK_BYTES = 1000


class Mark(Model):
    """The content of a mark."""

    kind: Literal["mptctl scratch"] = "mptctl scratch"
    id: str  # the name of the folder that it was written for
    process: int  # that wrote it, for people: in another container the number is another process or none


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that nobody else can enter, and remove it with all that is in it.

    A program that is killed cannot remove its own; a later one of the same user does. The lock on the mark in
    the folder tells whether its program goes on: the kernel drops it with the process.

    Raises:
        StorageError: the temporary directory cannot be written.
    """
    parent = temporary_directory()
    remove_leftovers(parent)
    # Named first: whatever ends this program from here on, a signal too, removes the folder.
    folder, mark = parent / f"{PREFIX}{secrets.token_urlsafe(6)}", None
    try:
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise storage_error(parent / PREFIX, error) from error
        try:
            # Held and whole before it has its name, so that nobody finds a mark that is still free.
            mark = os.open(folder / f"{MARK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(mark, fcntl.LOCK_EX)
            os.write(mark, Mark(id=folder.name, process=os.getpid()).model_dump_json().encode())
            os.rename(folder / f"{MARK}.new", folder / MARK)
        except OSError as error:
            raise storage_error(folder, error) from error
        yield folder
    finally:
        _remove(folder)
        if mark is not None:
            os.close(mark)


def remove_leftovers(parent: Path) -> None:
    """Remove the scratch of this user's programs that were killed and could not do it themselves.

    Args:
        parent: the temporary directory, which others may write too. Only a folder with our own mark for it
            goes, and none in which a file has a name that runs, splits, studies and data have: somebody works
            in there.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if stat.S_ISDIR(folder.lstat().st_mode) and _is_ours(folder.lstat()):
                _remove_unless_held(folder)


def temporary_directory() -> Path:
    """The folder of this machine for files that need not last: ``TMPDIR``, or what the system says.

    Raises:
        StorageError: nothing of that can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # its message names all folders that were tried
        raise StorageError(f"{error.strerror}; set TMPDIR to a folder that can be written") from error


def _is_ours(status: os.stat_result) -> bool:
    """Tell whether something is this user's, and closed to everybody else."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove_unless_held(folder: Path) -> None:
    """Remove scratch that no program holds; OSError where it is held, has no mark, or goes meanwhile."""
    if not stat.S_ISREG((folder / MARK).lstat().st_mode):
        return  # looked at first: opening a FIFO would wake up whoever waits at its other end
    # To read alone, which is enough for a lock: whoever writes in a folder of Ray's is ended with that Ray.
    mark = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where its program goes on
        if (
            _is_ours(os.fstat(mark))
            and _marks(os.pread(mark, MARK_BYTES, 0), folder)
            and not any(is_kept(name) for _, _, names in os.walk(folder) for name in names)
        ):
            _remove(folder)
    finally:
        os.close(mark)


def _marks(content: bytes, folder: Path) -> bool:
    try:
        return Mark.model_validate_json(content).id == folder.name
    except ValidationError:
        return False


def _remove(folder: Path) -> None:
    """Remove a folder, its mark last: while something is left, a later program knows it by that."""
    with suppress(OSError):
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                shutil.rmtree(inner, ignore_errors=True)
            elif inner.name != MARK:
                inner.unlink()
        if not any(inner.name != MARK for inner in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
