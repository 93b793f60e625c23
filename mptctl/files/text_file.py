"""Files that a person names, read whole: regular ones of bounded size, and names of classes, one a line."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from mptctl.errors import DataError, UsageError

# Characters of a class name in a file: a line that is longer is data that stand in the wrong place.
LONGEST_NAME = 1000
# Room for a million ids of 60 letters.
MOST_BYTES = 2**26


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


def read_text(path: Path, most: int, what: str, write: str, smaller: str = "name another file") -> str:
    """The text of a regular file in UTF-8, without a byte order mark.

    Args:
        path: of the file.
        most: bytes that it may have.
        what: what it is called in messages.
        write: what to do about one that cannot be read, or is no text.
        smaller: what to do about a larger one.

    Raises:
        UsageError: it cannot be read, is not UTF-8, or is larger.
        DataError: a device, a FIFO or a socket.
    """
    try:
        return read_bounded(path, most, what, smaller).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{what}: cannot be read ({reason}); {write}") from error


@dataclass(frozen=True)
class NamedLine:
    """A name and the line, from 1, that it stands on."""

    number: int
    name: str


def read_names(path: Path, flag: str) -> list[str]:
    """Read a file of names, as `read_named_lines`, whose errors it raises."""
    return [line.name for line in read_named_lines(path, flag)]


def read_named_lines(path: Path, flag: str) -> list[NamedLine]:
    """Read a file of class names: one a line, in their order; empty lines do not count.

    Args:
        path: of the file.
        flag: that named it, for messages.

    Raises:
        UsageError: it cannot be read, is not UTF-8, is too large, names nothing, or has a line that is no
            name. No text of it is in the message: what names the file may come from somebody who may not read
            it.
        DataError: a device or FIFO.
    """
    lines = read_text(path, MOST_BYTES, f"{flag} {path}", "write one name a line").splitlines()
    names = [NamedLine(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not names:
        raise UsageError(f"{flag} {path}: holds no name; write one name a line")
    for line in names:
        if len(line.name) > LONGEST_NAME:
            raise UsageError(
                f"{flag} {path}: line {line.number} has {len(line.name):,} characters; write one name a line"
            )
    return names
