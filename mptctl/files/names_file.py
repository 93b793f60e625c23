"""Names of classes in a text file, one a line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.files.bounded import read_bounded

# Characters of a class name in a file: a line that is longer is data that stand in the wrong place.
LONGEST_NAME = 1000
# Room for a million ids of 60 letters.
MOST_BYTES = 2**26


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
        UsageError: it cannot be read, is not UTF-8, is too large, names nothing, or has a line that is no name. No text
            of it is in the message: what names the file may come from somebody who may not read it.
        DataError: a device or FIFO.
    """
    try:
        lines = read_bounded(path, MOST_BYTES, f"{flag} {path}").decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{flag} {path}: cannot be read ({reason}); write one name a line") from error
    names = [NamedLine(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not names:
        raise UsageError(f"{flag} {path}: holds no name; write one name a line")
    for line in names:
        if len(line.name) > LONGEST_NAME:
            raise UsageError(
                f"{flag} {path}: line {line.number} has {len(line.name):,} characters; write one name a line"
            )
    return names
