"""Ends what Ray has started when its program is gone; a script of its own, so that it outlives that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A process that the kernel cannot end, such as one that waits for a disk, is not waited for any longer.
MOST_SECONDS = 10.0
BETWEEN_LOOKS = 0.05  # seconds


@contextmanager
def nothing_left_behind(folder: Path) -> Iterator[None]:
    """End every process that was started in this context, when it ends or when this process is killed.

    Ray's own servers end with the process that started them, but its agents then try for a minute to tell a
    server that is gone.

    Args:
        folder: of that Ray, ours alone, in which all its processes write a log.
    """
    # Isolated and without site-packages it starts at once; in a session of its own, Ctrl-C does not reach it.
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
    """Kill whoever writes a file in a folder until nobody is left; only Linux tells who that is.

    Args:
        folder: its path.
        but: a process that stays, the one that goes on without Ray.
    """
    until = time.monotonic() + MOST_SECONDS
    while (
        left := [process for process in _who_writes_in(folder) if process != but]
    ) and time.monotonic() < until:
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(BETWEEN_LOOKS)


def _who_writes_in(folder: str) -> Iterator[int]:
    """Neither environment nor command line would tell: Ray writes the names of its agents over both.

    Whoever only reads is none of Ray's: a person who looks at a log, or another command of ours that removes
    what a killed one left.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if any(_is_written(process, file.name) for file in _open_in(folder, process)):
                yield int(process.name)


def _open_in(folder: str, process: Path) -> Iterator[Path]:
    for file in (process / "fd").iterdir():
        with suppress(OSError):  # it has been closed since
            if os.readlink(file).startswith(f"{folder}/"):
                yield file


def _is_written(process: Path, number: str) -> bool:
    """Tell whether a process has opened a file to write it: by "flags:", in octal (`proc(5)`)."""
    lines = (process / "fdinfo" / number).read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


if __name__ == "__main__":
    sys.stdin.buffer.read()  # comes to its end when the program closes it or has ended, however it ended
    end_all(sys.argv[1], but=int(sys.argv[2]))
