"""Reads small files: bytes, text or JSON of limited size, and lists of names, one a line."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from mptctl.errors import DataError, MptctlError, UsageError, one_line

# Most characters of a class name; a longer line is data of another kind.
LONGEST_NAME = 1000
# Enough for a million ids of 60 letters.
MOST_BYTES = 2**26


def read_bounded(path: Path, most: int, what: str, advice: str = "name another file") -> bytes:
    """Read a regular file of limited size.

    Args:
        path: of the file.
        most: largest allowed size, in bytes; at most one byte more is read.
        what: name of the file in messages.
        advice: end of the message about a larger file.

    Raises:
        DataError: a device, a FIFO or a socket, which may have no end.
        UsageError: a larger file.
        OSError: the file cannot be read, or is a folder.
    """
    # O_NONBLOCK: opening a FIFO without a writer would wait.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise DataError(f"{what}: is no regular file, and may have no end; write it into a file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{what}: larger than {most >> 20} MB; {advice}")
    return content


def read_text(path: Path, most: int, what: str, remedy: str, if_larger: str = "name another file") -> str:
    """Read a regular file of limited size as UTF-8 text; a byte order mark is removed.

    Args:
        path: of the file.
        most: largest allowed size, in bytes.
        what: name of the file in messages.
        remedy: what to do about a file that cannot be read or is no text; ends the message.
        if_larger: what to do about a larger file; ends the message.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, or is larger.
        DataError: a device, a FIFO or a socket.
    """
    try:
        return read_bounded(path, most, what, if_larger).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{what}: cannot be read ({reason}); {remedy}") from error


def read_json_object(path: Path, remedy: str, kind: type[MptctlError] = DataError) -> dict[str, Any]:
    """Read the JSON object in a file that another program wrote beside its data or weights.

    Args:
        path: of the file.
        remedy: what to do about a file without such an object; ends the message.
        kind: class of the error.

    Raises:
        MptctlError: of that kind: the file cannot be read, is larger than `MOST_BYTES`, or holds no object.
    """
    try:
        content = json.loads(read_bounded(path, MOST_BYTES, str(path)))
    except (OSError, ValueError, RecursionError, MptctlError) as error:
        raise kind(f"{path}: cannot be read as JSON ({one_line(error)[:120]}); {remedy}") from error
    if not isinstance(content, dict):
        raise kind(f"{path}: is no JSON object; {remedy}")
    return content


def read_names(path: Path, flag: str) -> list[str]:
    """Read a file of names, one a line, without line numbers; see `read_named_lines`."""
    return [name for _, name in read_named_lines(path, flag)]


def read_named_lines(path: Path, flag: str) -> list[tuple[int, str]]:
    """Read a file of names, one a line, in order; surrounding spaces are removed, empty lines skipped.

    Messages have no text of the file, since whoever names a file may have no right to read it.

    Args:
        path: of the file.
        flag: option that names the file, for messages.

    Returns:
        The number of each name's line, counted from 1, and the name.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, is too large, has no name, or has too long a line.
        DataError: a device, a FIFO or a socket.
    """
    lines = read_text(path, MOST_BYTES, f"{flag} {path}", "write one name a line").splitlines()
    names = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not names:
        raise UsageError(f"{flag} {path}: holds no name; write one name a line")
    for number, name in names:
        if len(name) > LONGEST_NAME:
            raise UsageError(
                f"{flag} {path}: line {number} has {len(name):,} characters; write one name a line"
            )
    return names
