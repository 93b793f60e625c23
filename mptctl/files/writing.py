"""Writes files completely or not at all, and explains why a file cannot be written."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mptctl.errors import StorageError, UsageError

PARTIAL = ".part"
# Temporary names of `replacing` and `link_or_copy`, such as `.last.pt.1f0c9a2e.part` and `.last.pt.part`;
# group 1 is the final name.
PARTIAL_NAME = re.compile(r"\.(.+?)(\.[0-9a-z_]{8})?\.part")
# A function that opens an output for writing bytes: `writing`, or `FilesTogether.open`.
OpenOutput = Callable[[Path], AbstractContextManager[IO[Any]]]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: Path, keep_previous: Path | None = None, needed: int | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file for writing bytes, and rename it to ``path`` when the ``with`` block ends well.

    So at every moment either the old or the new file is complete, also if the process is killed. The new file
    has the rights of the umask; before renaming only its owner can read it.

    Args:
        path: the file to make or replace; missing folders are made.
        keep_previous: a second name for the former file at ``path``; None: the former file is lost.
        needed: size of the new file in bytes, if known, for the message on a full disk.

    Raises:
        StorageError: the folder cannot be written or the disk is full; the old file stays.
    """
    temporary = _temporary_path(path)
    try:
        with _new_file(temporary) as stream:
            yield stream
        if keep_previous is not None and path.exists():
            link_or_copy(path, keep_previous)
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise storage_error(path, error, needed) from error


class FilesTogether:
    """The outputs of one command: all files get their names when the ``with`` block ends well, or none does.

    If the disk fills while they are written, or a folder stands where one of them belongs, the former files
    stay, all of the same earlier command. If the process is killed while files get their names, some files
    are missing, but none is of an earlier command.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []  # temporary and final path of each file

    def __enter__(self) -> FilesTogether:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._take_names()
        finally:
            for temporary, _target in self._written:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)

    @contextmanager
    def open(self, path: Path) -> Iterator[IO[Any]]:
        """Open an output for writing bytes, as `writing` does; a stream is written at once.

        Raises:
            UsageError, StorageError: as `writing`.
        """
        target = output_file(path)
        temporary = _temporary_path(target)
        is_stream = _is_stream(target)
        try:
            with _open_stream(target) if is_stream else _new_file(temporary) as stream:
                yield stream
        except OSError as error:
            raise storage_error(path, error) from error
        if not is_stream:
            self._written.append((temporary, target))

    def _take_names(self) -> None:
        """Rename all temporary files to their final names.

        The former files are removed first, so that none of them lies beside a new file. Only the first one
        stays until the end: it is replaced when all others have their names.
        """
        try:
            for _temporary, target in self._written:
                if target.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            for _temporary, target in self._written[1:]:
                target.unlink(missing_ok=True)
            for temporary, target in reversed(self._written):
                temporary.replace(target)
            for folder in {target.parent for _temporary, target in self._written}:
                _flush_folder(folder)
        except OSError as error:
            raise storage_error(target, error) from error


def _temporary_path(path: Path) -> Path:
    """The path of a file while it is written: a new hidden name beside it, with the suffix `PARTIAL`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[Any]]:
    """Open a new file for writing bytes; missing folders are made.

    If the ``with`` block ends well, the file is flushed to the disk and has the rights of the umask. After an
    error the file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The system applies the umask here: reading it in Python would change it for other threads.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            rights = stat.S_IMODE(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)  # private until it is complete
            yield stream
            stream.flush()
            os.fchmod(descriptor, rights)
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _open_stream(path: Path) -> IO[Any]:
    """Open a device, FIFO or other stream for writing bytes."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb")


@contextmanager
def writing(path: Path) -> Iterator[IO[Any]]:
    """Open an output that a user names, for writing bytes.

    A file is opened as by `replacing`; a stream such as ``/dev/stdout`` is written directly.

    Args:
        path: of the output; see `output_file`.

    Raises:
        UsageError: the path is not allowed for an output.
        StorageError: the output cannot be written.
    """
    with FilesTogether() as files, files.open(path) as stream:
        yield stream


def output_file(path: Path) -> Path:
    """Return the file for an output: the path itself, or the target of a link to a file in the same folder.

    Raises:
        UsageError: the path is a folder, or a link to anything but a file in its folder.
    """
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; name a file")
    if not path.is_symlink() or _is_stream(path):
        return path
    target = Path(os.path.realpath(path))
    if not target.is_file() or target.parent != Path(os.path.realpath(path.parent)):
        raise UsageError(
            f"{path}: is a link to {target}; an output follows a link only to a file in the same folder; "
            "name that file itself, or remove the link"
        )
    return target


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Make a folder and hold a lock on it during the ``with`` block; wait for other processes that hold it.

    The lock ends with the process. On network file systems without locks on folders, nothing is locked.

    Raises:
        StorageError: the folder cannot be made or opened.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise storage_error(path, error) from error
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def write_atomically(path: Path, content: bytes | memoryview, keep_previous: Path | None = None) -> None:
    """Write a file completely or not at all.

    Args:
        path: the file to make or replace; missing folders are made.
        content: the new content.
        keep_previous: a second name for the former file; see `replacing`.

    Raises:
        StorageError: the file cannot be written, or the disk is full; the old file stays.
    """
    with replacing(path, keep_previous, needed=len(content)) as stream:
        stream.write(content)


def link_or_copy(path: Path, name: Path) -> None:
    """Give a file a second name in its folder, by a hard link or a copy.

    A former file of the second name is replaced at once, so that at every moment a file has the name.

    Args:
        path: the file.
        name: the second path.
    """
    second = name.with_name(f".{name.name}{PARTIAL}")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:  # the file system has no hard links
        shutil.copyfile(path, second)
    os.replace(second, name)


def remove_partial_files(folder: Path, name: str = "") -> None:
    """Remove temporary files that a killed process of this user left in a folder.

    Call only while no other process writes these files, as while holding a lock.

    Args:
        folder: the folder.
        name: beginning of the final names of the files.
    """
    for partial in folder.glob(f".{name}*{PARTIAL}"):
        status = partial.lstat()
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_own and PARTIAL_NAME.fullmatch(partial.name):
            partial.unlink(missing_ok=True)


def storage_error(path: Path, error: OSError, needed: int | None = None) -> StorageError:
    """Make the error for a file that could not be written; ``needed`` is its size in bytes, if known."""
    if error.errno in _FULL:
        return StorageError(f"{path}: {_shortage(path, error, needed)}", full=True)
    return StorageError(f"{path}: cannot be written: {error.strerror or error}; choose another folder")


def _shortage(path: Path, error: OSError, needed: int | None) -> str:
    """Describe what has run out (space, quota, size of a file) and the remedy."""
    wanted = f"{needed / 1e6:.1f} MB needed, " if needed else ""
    kept = "what was there before is kept"
    if error.errno == errno.EFBIG:
        largest = "more than the largest file that is allowed (ulimit -f)"
        return f"no room: {wanted}{largest}; {kept}; raise that limit"
    if error.errno == errno.EDQUOT:
        return f"no room: {wanted}the quota of this user is used up; {kept}; make room"
    free = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.exists())).free
    advice = "make room, or delete files where there are too many"
    return f"no room: {wanted}{free / 1e6:.1f} MB free; {kept}; {advice}"


def _is_stream(path: Path) -> bool:
    """Tell whether a path is a device, a FIFO or another stream, which is written directly."""
    return str(path).startswith("/dev/") or (path.exists() and not path.is_file())


def _flush_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that new names in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
