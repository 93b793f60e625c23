"""Write a file whole or not at all, so that a full disk or a kill never leaves half of one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mptctl.errors import StorageError

PARTIAL = ".part"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: Path, keep_previous: Path | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` for writing bytes; it takes the name when the block ends well.

    At every moment either the old or the new file is there, whole, also when the process is killed.

    Args:
        path: the file to make or to replace; its folder is made where there is none.
        keep_previous: where the file that ``path`` held before goes.

    Raises:
        StorageError: the folder cannot be written or the disk is full; the old file stays as it was.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        if keep_previous is not None and path.exists():
            give_second_name(path, keep_previous)
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


def write_atomically(path: Path, content: bytes | memoryview, keep_previous: Path | None = None) -> None:
    """Replace a file by another one, or leave it as it is; see `replacing`.

    Raises:
        StorageError: with how much is needed and how much is free.
    """
    try:
        with replacing(path, keep_previous) as stream:
            stream.write(content)
    except StorageError as error:
        if isinstance(error.__cause__, OSError):
            raise storage_error(path, error.__cause__, len(content)) from error.__cause__
        raise


def give_second_name(path: Path, name: Path) -> None:
    """Give a file a second name in its folder, whatever had that name; at no moment nothing has it."""
    second = name.with_name(f".{name.name}{PARTIAL}")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, second)
    os.replace(second, name)


def remove_partial_files(folder: Path) -> None:
    """Remove what a killed process left half written; for a folder that nobody else writes."""
    for partial in folder.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)


def storage_error(path: Path, error: OSError, needed: int | None = None) -> StorageError:
    """Say what kept a file from being written, in one line."""
    if error.errno in _FULL:
        free = shutil.disk_usage(path.parent).free
        wanted = f"{needed / 1e6:.1f} MB needed, " if needed else ""
        return StorageError(
            f"{path}: no room: {wanted}{free / 1e6:.1f} MB free; what was there before is kept; make room, "
            "then go on with --resume"
        )
    return StorageError(f"{path}: cannot be written: {error.strerror or error}; choose another folder")


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
