"""Ends processes of Ray when their program ends; runs as a script that outlives the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Longest wait for processes to end; the kernel cannot end one that waits for a disk, for example.
MAX_SECONDS = 10.0
POLL_SECONDS = 0.05


@contextmanager
def end_ray_afterwards(folder: Path) -> Iterator[None]:
    """End all processes of a Ray when the ``with`` block ends, or when this process is killed.

    Ray's servers end with the process that started them, but its agents go on for a minute.

    Args:
        folder: Ray's private folder, in which each of its processes writes a log.
    """
    # -I and -S for a quick start; a new session, so that Ctrl-C does not reach the script.
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(folder), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        watcher.communicate()


def end_all(folder: str, but: int) -> None:
    """Kill the processes that write files in a folder, for up to `MAX_SECONDS`; works on Linux only.

    Args:
        folder: path of the folder.
        but: number of a process that is not killed: the program that started Ray.
    """
    until = time.monotonic() + MAX_SECONDS
    while time.monotonic() < until:
        processes = [process for process in _writing_processes(folder) if process != but]
        if not processes:
            break
        for process in processes:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _writing_processes(folder: str) -> Iterator[int]:
    """Yield the numbers of processes that have a file in a folder open for writing.

    Environment and command line do not tell which processes are Ray's, since Ray overwrites both. A process
    that only reads is not Ray's: it may show a log, or be another command that removes leftovers.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or is another user's
            if any(_is_open_for_writing(process, file.name) for file in _open_files_in(folder, process)):
                yield int(process.name)


def _open_files_in(folder: str, process: Path) -> Iterator[Path]:
    """Yield the entries of ``/proc/N/fd`` for a process's open files in a folder."""
    for file in (process / "fd").iterdir():
        with suppress(OSError):  # the file has been closed since
            if os.readlink(file).startswith(f"{folder}/"):
                yield file


def _is_open_for_writing(process: Path, number: str) -> bool:
    """Tell whether a process has opened a file for writing, by the octal "flags:" of `proc(5)`.

    Args:
        process: folder ``/proc/N``.
        number: the file's descriptor.
    """
    lines = (process / "fdinfo" / number).read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


if __name__ == "__main__":
    sys.stdin.buffer.read()  # returns when the program closes the pipe or has ended
    end_all(sys.argv[1], but=int(sys.argv[2]))
