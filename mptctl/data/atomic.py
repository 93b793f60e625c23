"""Write a file whole or not at all, so that a full disk or a kill never leaves half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mptctl.errors import StorageError


@contextmanager
def replacing(path: Path) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` for writing bytes; it takes the name when the block ends well.

    Args:
        path: the file to make or to replace; its folder is made where there is none.

    Raises:
        StorageError: the folder cannot be written or the disk is full; the old file stays as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise StorageError(
            f"{path}: cannot be written ({error.strerror}); {free / 1e6:.0f} MB are free there"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
