"""Files that are written whole or not at all, and what is said where they cannot be."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mptctl.errors import StorageError, UsageError

PARTIAL = ".part"
# The names that `replacing` and `link_or_copy` write under: `.last.pt.1f0c9a2e.part`, `.last.pt.part`.
_PARTIAL_NAME = re.compile(r"\..+?(\.[0-9a-z_]{8})?\.part")
# Opens an output for writing bytes: `writing`, or `FilesTogether.open`.
OpenOutput = Callable[[Path], AbstractContextManager[IO[Any]]]
# A file that this process has open already, such as its standard output.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: Path, keep_previous: Path | None = None, needed: int | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` for writing bytes; it takes the name when the block ends well.

    At every moment either the old or the new file is there, whole, also when the process is killed. The file
    has the rights that the umask leaves; until it is whole only its owner can read it.

    Args:
        path: the file to make or to replace; its folder is made where there is none.
        keep_previous: where the file that ``path`` held before goes.
        needed: bytes of the new file, where they are known, for the message on a full disk.

    Raises:
        StorageError: the folder cannot be written or the disk is full; the old file stays as it was.
    """
    name = _partial_name(path)
    try:
        with _whole(name) as stream:
            yield stream
        if keep_previous is not None and path.exists():
            link_or_copy(path, keep_previous)
        name.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            name.unlink()
        raise storage_error(path, error, needed) from error


class FilesTogether:
    """Outputs of one command, each opened by `open`: all take their names when the block ends well, or none.

    So a disk that fills between two of them leaves the earlier ones, whole and of one command. A process that
    is killed between two names leaves fewer files, never files of two commands.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []  # the name that a file has, and the one that it takes

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
        """Open an output for writing bytes, as `writing` does; a device or a FIFO gets them at once."""
        target = output_file(path)
        if _is_stream(target):
            with writing(path) as stream:
                yield stream
            return
        name = _partial_name(target)
        try:
            with _whole(name) as stream:
                yield stream
        except OSError as error:
            raise storage_error(path, error) from error
        self._written.append((name, target))

    def _take_names(self) -> None:
        for _temporary, target in self._written[1:]:
            target.unlink(missing_ok=True)
        for temporary, target in self._written:
            try:
                temporary.replace(target)
                _flush_folder(target.parent)
            except OSError as error:
                raise storage_error(target, error) from error


def _partial_name(path: Path) -> Path:
    """The name beside a file that it is written under."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


@contextmanager
def _whole(path: Path) -> Iterator[IO[Any]]:
    """Open a new file that is on the disk, with the rights of the umask, when the block ends well.

    After an error it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The system applies the umask, which a program cannot ask for without changing it for its other threads.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            rights = stat.S_IMODE(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)  # what is half written is nobody else's
            yield stream
            stream.flush()
            os.fchmod(descriptor, rights)
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


@contextmanager
def writing(path: Path) -> Iterator[IO[Any]]:
    """Open an output that a user named, for bytes: a file as `replacing` does, a device or a FIFO as it is.

    Args:
        path: where the output goes; see `output_file`.

    Raises:
        UsageError: what is there is not to be written.
        StorageError: it cannot be written.
    """
    target = output_file(path)
    if not _is_stream(target):
        with replacing(target) as stream:
            yield stream
        return
    descriptor = _own_descriptor(target)
    try:
        # A descriptor is not opened again: that would begin at the start of a file that others write as well.
        opened = os.dup(descriptor) if descriptor is not None else os.open(target, os.O_WRONLY)
        with os.fdopen(opened, "wb") as stream:
            yield stream
    except OSError as error:
        raise storage_error(path, error) from error


def output_file(path: Path) -> Path:
    """The file that an output is written to: the path, or the file in the same folder that it is a link to.

    A path of a device, a FIFO or an open descriptor such as ``/dev/stdout`` is given back as it is.

    Raises:
        UsageError: a folder, a link that leads out of its folder or to no file, or what cannot be written
            into.
    """
    descriptor = _own_descriptor(path)
    try:
        if descriptor is not None:
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise UsageError(f"{path}: is open for reading only; name a file")
            return path
        if path.is_symlink():
            target = Path(os.path.realpath(path))
            if not target.is_file() or target.parent != Path(os.path.realpath(path.parent)):
                raise UsageError(
                    f"{path}: is a link to {target}; an output follows a link only to a file in the same "
                    "folder; name that file itself, or remove the link"
                )
            return target
        mode = path.stat().st_mode
    except OSError as error:
        if descriptor is not None:
            raise UsageError(f"{path}: is not open ({error.strerror}); name a file") from error
        return path  # not there yet, or whoever writes it says what is wrong
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path}: is a folder; name a file")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise UsageError(f"{path}: is neither a file nor a stream; name a file")
    return path


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold a folder against other processes that do the same; the kernel lets go of it with the process.

    Some network file systems lock no folders. There nothing is held.

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
    """Replace a file by another one, or leave it as it is; see `replacing`.

    Raises:
        StorageError: with how much is needed and how much is free.
    """
    with replacing(path, keep_previous, needed=len(content)) as stream:
        stream.write(content)


def link_or_copy(path: Path, name: Path) -> None:
    """Give a file a second name in its folder, whatever had that name; at no moment nothing has it."""
    second = name.with_name(f".{name.name}{PARTIAL}")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, second)
    os.replace(second, name)


def remove_partial_files(folder: Path, name: str = "") -> None:
    """Remove what a killed process of ours left half written of files whose name begins so.

    For whoever alone writes these files, as the holder of a lock does.
    """
    for partial in folder.glob(f".{name}*{PARTIAL}"):
        found = partial.lstat()
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if ours and _PARTIAL_NAME.fullmatch(partial.name):
            partial.unlink(missing_ok=True)


def storage_error(path: Path, error: OSError, needed: int | None = None) -> StorageError:
    """Say what kept a file from being written, in one line."""
    if error.errno in _FULL:
        return StorageError(f"{path}: {_shortage(path, error, needed)}", full=True)
    return StorageError(f"{path}: cannot be written: {error.strerror or error}; choose another folder")


def _shortage(path: Path, error: OSError, needed: int | None) -> str:
    """Say what there is too little of, and what to do."""
    wanted = f"{needed / 1e6:.1f} MB needed, " if needed else ""
    kept = "what was there before is kept"
    if error.errno == errno.EFBIG:
        most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = (
            "this file system allows"
            if most == resource.RLIM_INFINITY
            else f"ulimit allows, {most / 1e6:.1f} MB"
        )
        return f"no room: {wanted}more than the largest file that {limit}; {kept}; raise that limit"
    if error.errno == errno.EDQUOT:
        return f"no room: {wanted}the quota of this user is used up; {kept}; make room"
    place = os.statvfs(next(folder for folder in path.absolute().parents if folder.exists()))
    if place.f_files and not place.f_favail:
        return f"no room: the file system holds as many files as it can; {kept}; delete some"
    free = place.f_bavail * place.f_frsize
    return f"no room: {wanted}{free / 1e6:.1f} MB free; {kept}; make room"


def _own_descriptor(path: Path) -> int | None:
    """The number in ``/dev/fd/N`` or what ``/dev/stdout`` is a link to; None for all other paths."""
    name = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(name)
    return _STANDARD.get(name) if found is None else int(found[1])


def _is_stream(path: Path) -> bool:
    """Tell whether bytes go into what is there: an open descriptor, a device or a FIFO."""
    if _own_descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
