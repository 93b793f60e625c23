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
        folder: of that Ray, ours alone, in which all its processes have a log open.
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
    """Kill whoever has a file open in a folder until nobody is left; only Linux tells who that is.

    Args:
        folder: its path.
        but: a process that stays, the one that goes on without Ray.
    """
    until = time.monotonic() + MOST_SECONDS
    while (
        left := [process for process in _who_is_in(folder) if process != but]
    ) and time.monotonic() < until:
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(BETWEEN_LOOKS)


def _who_is_in(folder: str) -> Iterator[int]:
    """Neither environment nor command line would tell: Ray writes the names of its agents over both."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if any(os.readlink(file).startswith(f"{folder}/") for file in (process / "fd").iterdir()):
                yield int(process.name)


if __name__ == "__main__":
    sys.stdin.buffer.read()  # comes to its end when the program closes it or has ended, however it ended
    end_all(sys.argv[1], but=int(sys.argv[2]))
