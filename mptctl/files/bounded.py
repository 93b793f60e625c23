"""Files that a person names, read whole: regular ones alone, and no more of them than anybody wrote."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mptctl.errors import DataError, UsageError


def read_bounded(path: Path, most: int, what: str, advice: str = "name another file") -> bytes:
    """The content of a regular file.

    Args:
        path: of the file.
        most: bytes that it may have; no more is ever read, whatever its size is said to be.
        what: what it is called in messages.
        advice: what to do about a larger one.

    Raises:
        DataError: a device, a FIFO or a socket, which may have no end.
        UsageError: a larger file.
        OSError: it cannot be read, or is a folder.
    """
    # A FIFO without a writer would hold up the open itself.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise DataError(f"{what}: is no regular file, and may have no end; write it into a file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{what}: larger than {most >> 20} MB; {advice}")
    return content
