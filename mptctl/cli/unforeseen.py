"""The message and exit code of an unforeseen exception: no memory, a file refused, or a bug of mptctl."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from mptctl.errors import DataError, StorageError, UsageError, one_line

# Errors of the system on reading and on writing a file, which are no fault of the program.
NOT_READ = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# Words of libraries that raise no MemoryError where memory runs out; the last are the system loader's, where
# a library does not fit.
NO_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "bad_alloc",
    "Cannot allocate memory",
    "failed to map segment from shared object",
)
# Modules that mptctl requires and an installation for the gate alone leaves out (requirements-gate.txt).
LEFT_OUT = ("torch", "torchvision", "torchcodec", "nvidia", "ray", "optuna", "tensorboardX")


def explain_unforeseen(error: Exception, words: Sequence[str]) -> tuple[str, int]:
    """Return the message on an exception that nothing caught, and the exit code.

    Args:
        error: none of mptctl's own classes.
        words: of the command line, without the program.
    """
    said = one_line(error)[:300]
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module in LEFT_OUT:
        command = next((word for word in words if not word.startswith("-")), "mptctl")
        return (
            f"{command}: needs {module}, which is not installed (requirements-gate.txt leaves it "
            "out); install all of mptctl with pip install, without --no-deps",
            UsageError.exit_code,
        )
    if isinstance(error, MemoryError) or any(sign in said for sign in NO_MEMORY):
        return (
            f"not enough memory ({said}); end other programs, take a smaller optim.batch_size or fewer "
            "data.threads, and of predictions a smaller --memory-limit",
            StorageError.exit_code,
        )
    if isinstance(error, OSError) and error.filename is not None and error.errno in (*NOT_READ, *NOT_WRITTEN):
        code = StorageError.exit_code if error.errno in NOT_WRITTEN else DataError.exit_code
        return f"{error.filename}: {error.strerror}; check its rights, and the disk that it is on", code
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return "the current folder has been deleted; change to one that exists", UsageError.exit_code
    return f"a bug of mptctl's: {type(error).__name__}: {said}; please report it with what --debug shows", 1


def _has_current_folder() -> bool:
    """Tells whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
