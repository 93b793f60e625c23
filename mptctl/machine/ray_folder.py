"""Ray's folder for the time of a search or study: in the temporary directory, with a path that its sockets fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.files.scratch import PREFIX, scratch_folder, temporary_directory

# Ray makes its own folder with mode 0777, hence one below ours.
INNER = "r"
# The longest path that Ray makes a socket of, below ours (ray 2.60, _private/node.py), with the highest number that
# Linux gives a process; unix(7) has room for 107 bytes.
SOCKET = f"{INNER}/session_2025-01-01_00-00-00_000000_4194304/sockets/plasma_store"
MOST_SOCKET_BYTES = 107


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A folder for Ray, not made yet, in one that nobody else can enter and that is removed afterwards.

    Raises:
        UsageError: the temporary directory's path is too long for Ray's sockets.
        StorageError: the temporary directory cannot be written.
    """
    _refuse_long(temporary_directory())
    with scratch_folder() as folder:
        yield folder / INNER


def _refuse_long(parent: Path) -> None:
    there = len(os.fsencode(parent / f"{PREFIX}12345678" / SOCKET))
    if there > MOST_SOCKET_BYTES:
        raise UsageError(
            f"{parent}: {there - MOST_SOCKET_BYTES} characters too long for Ray's sockets; set TMPDIR to a shorter path"
        )
