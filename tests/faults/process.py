"""Command lines in a forked process: real descriptors, limits and disks, without importing torch again."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

# What the commands import, once for all children.
import duckdb  # noqa: F401

from tests.common import Done
from tests.forked import program

# What a stream of the process is: a path to open for writing, a descriptor, or None where it is closed.
Stream = str | int | None
NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000  # clone(2)
# After which a child that has not begun never will, also where the machine is busy.
FORK_SECONDS = 30


def run_forked(
    *words: object,
    stdout: Stream = "",
    stderr: Stream = "",
    encoding: str = "utf-8",
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
    at_most: int = 120,
) -> Done:
    """Run a command line as the program does, in a child of this process.

    Args:
        words: of the command line, without the program.
        stdout, stderr: where they go; an empty path: into what is returned.
        encoding: of both.
        before: called in the child first; a limit, a disk.
        after: called in the child when the command has ended.
        at_most: seconds after which it counts as hanging, and is ended by SIGALRM.

    Returns:
        The exit code as `subprocess` gives it, negative for the signal that ended it; and the largest memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("out", "err")]
        for path in paths:
            path.touch()
        child = _fork()
        if child == 0:
            code = 99
            try:
                warnings.simplefilter("ignore")
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(at_most)
                streams = (
                    _opened(stream if stream != "" else str(path))
                    for stream, path in zip((stdout, stderr), paths, strict=True)
                )
                before()
                _attach(*streams, encoding)
                code = program("mptctl", [str(word) for word in words])
                after()
            finally:
                os._exit(code)
        _, status, usage = os.wait4(child, 0)
        out, err = (path.read_text(encoding="utf-8", errors="backslashreplace") for path in paths)
        return Done(os.waitstatus_to_exitcode(status), out, err, usage.ru_maxrss * 1024)


def _fork() -> int:
    """Like `os.fork`, whose child can hang before it returns: in CPython 3.11, where another thread of the parent, such
    as one of Arrow's, enters the interpreter at that moment. Such a child is killed, and another one made."""
    while True:
        begun, begins = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(begun)
            os.close(begins)
            return 0
        os.close(begins)
        # Ready as soon as the child has closed its end.
        ready, _, _ = select.select([begun], [], [], FORK_SECONDS)
        os.close(begun)
        if ready:
            return child
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _opened(stream: Stream) -> int | None:
    return os.open(stream, os.O_WRONLY) if isinstance(stream, str) else stream


def _attach(out: int | None, err: int | None, encoding: str) -> None:
    """What the interpreter makes of the descriptors that it is started with."""
    for number, source in ((1, out), (2, err)):
        if source is None:
            os.close(number)
        else:
            os.dup2(source, number)
    sys.stdout = None if out is None else open(1, "w", encoding=encoding, closefd=False)  # type: ignore[assignment]  # noqa: SIM115
    sys.stderr = None if err is None else open(2, "w", encoding=encoding, closefd=False)  # type: ignore[assignment]  # noqa: SIM115


def memory_limit(more: int) -> Callable[[], None]:
    """Let the process take so many bytes beside what it has; beyond them an allocation fails."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (most := pages * resource.getpagesize() + more, most))

    return limit


def small_disk(folder: Path, size: int, kept: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """A file system of so many bytes over a folder, which only the process sees, with what was in the folder.

    Args:
        folder: over which it lies.
        size: in bytes.
        kept: where what it holds in the end is copied to.

    Returns:
        For `before` and `after` of `run_forked`.
    """

    def mount() -> None:
        system = ctypes.CDLL(None, use_errno=True)
        user, group = os.geteuid(), os.getegid()
        content = shutil.copytree(folder, kept.with_name(f"{kept.name}-before"))
        flags = NEW_MOUNTS | (NEW_USERS if user else 0)
        if system.unshare(flags):
            raise OSError(ctypes.get_errno(), "unshare")
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        private = 1 << 18 | 1 << 14  # MS_PRIVATE, MS_REC: nothing of it comes out
        if system.mount(b"none", b"/", None, private, None):
            raise OSError(ctypes.get_errno(), "mount")
        if system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()):
            raise OSError(ctypes.get_errno(), "mount")
        shutil.copytree(content, folder, dirs_exist_ok=True)

    return mount, lambda: shutil.copytree(folder, kept)  # type: ignore[return-value]


def can_mount() -> bool:
    """Whether a process may have a file system of its own here."""
    child = os.fork()
    if child == 0:
        system = ctypes.CDLL(None)
        os._exit(1 if system.unshare(NEW_MOUNTS | (NEW_USERS if os.geteuid() else 0)) else 0)
    return os.waitpid(child, 0)[1] == 0


def without_override() -> None:
    """Let root be refused what the rights of a file refuse its owner: give up CAP_DAC_OVERRIDE and _READ_SEARCH."""
    system = ctypes.CDLL(None)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the third version of capset(2), for this process
    sets = (ctypes.c_uint32 * 6)()
    system.capget(head, sets)
    sets[0] &= ~0b110
    system.capset(head, sets)
