"""Names of classes in a text file, one a line."""

from __future__ import annotations

from pathlib import Path

from mptctl.errors import UsageError
from mptctl.files.bounded import read_bounded

# Characters of a class name in a file: a line that is longer is data that stand in the wrong place.
LONGEST_NAME = 1000
# Room for a million ids of 60 letters.
MOST_BYTES = 2**26


def read_names(path: Path, flag: str) -> list[str]:
    """Read a file of class names: one a line, in their order; empty lines do not count.

    Args:
        path: of the file.
        flag: that named it, for messages.

    Raises:
        UsageError: it cannot be read, is not UTF-8, is too large, names nothing, or has a line that is no name.
        DataError: a device or FIFO.
    """
    try:
        lines = read_bounded(path, MOST_BYTES, f"{flag} {path}").decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{flag} {path}: cannot be read ({reason}); write one name a line") from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise UsageError(f"{flag} {path}: holds no name; write one name a line")
    if long := [name for name in names if len(name) > LONGEST_NAME]:
        raise UsageError(
            f"{flag} {path}: a name has {len(long[0]):,} characters ({long[0][:40]}...); write one name a line"
        )
    return names
