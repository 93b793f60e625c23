"""Errors that a user can act on: one line each, with the exit code that the command ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

# Set while messages are for the caller of a Python function, who gives arguments and not options.
_as_arguments = ContextVar("as_arguments", default=False)


class MptctlError(Exception):
    """An error that names the thing, what is wrong with it, and what to do, in one line.

    The command line prints the message without a traceback (``--debug`` shows it) and exits with
    ``exit_code``.
    """

    exit_code = 1


class UsageError(MptctlError):
    """A flag, a recipe or a run folder that cannot be used as asked."""

    exit_code = 2


class GateFailed(MptctlError):
    """A release gate, or a search for an acceptable release, did not pass."""

    exit_code = 3


class DataError(MptctlError):
    """Pictures, a split or predictions that are missing, damaged or contradictory."""

    exit_code = 4


class CheckpointError(MptctlError):
    """A checkpoint that is damaged, foreign, unsafe, or does not fit what it is used for."""

    exit_code = 5


class NonFiniteError(MptctlError):
    """A loss, gradient or logit that is NaN or infinite."""

    exit_code = 6


class StorageError(MptctlError):
    """A disk that is full, a folder that cannot be written, or memory that is too small.

    Args:
        message: what is wrong.
        full: the disk is; the command line then says how to go on where the verb can.
    """

    exit_code = 7

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class Stopped(MptctlError):
    """A run that ended on a signal.

    Args:
        message: what was saved.
        signum: the signal's number; the exit code is 128 + signum (130 for Ctrl-C, 143 for SIGTERM).
        resumable: whether ``--resume`` goes on from what was saved; the command line then says how.
    """

    def __init__(self, message: str, signum: int, *, resumable: bool = False) -> None:
        super().__init__(message)
        self.signum = signum
        self.resumable = resumable
        self.exit_code = 128 + signum


class ComparisonWarning(UserWarning):
    """A remark of a comparison from Python, which the command line prints."""


def option(name: str) -> str:
    """The name of an option as its user writes it: ``--old-classes``, in Python ``old_classes``."""
    return name.replace("-", "_") if _as_arguments.get() else f"--{name}"


@contextmanager
def options_as_arguments() -> Iterator[None]:
    """Has `option` name arguments of Python until the block ends."""
    token = _as_arguments.set(True)
    try:
        yield
    finally:
        _as_arguments.reset(token)


def some(names: Iterable[object], limit: int = 3, separator: str = ", ") -> str:
    """The first few of many names for a message: ``a, b, c and 4 more``.

    Args:
        names: in the order in which they are to be named.
        limit: how many are named.
        separator: what stands between two of them.
    """
    words = [str(name) for name in names]
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return separator.join(words[:limit]) + more


def visible(text: str) -> str:
    """A text from outside as a terminal may get it: what would move its cursor or break lines as ``\\xNN``.

    Args:
        text: a name of a class, a file or a run, or a message that holds some.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def one_line(error: BaseException) -> str:
    """The words of an exception, without line breaks; its kind where it says nothing.

    Of one on YAML, the line and what is wrong there; of the system's, its words without their number; of an
    object that Python shows by its address, its type.
    """
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        parts = (getattr(error, name, None) for name in ("context", "problem"))
        said = "; ".join(str(part) for part in parts if part).replace("'<stream end>'", "the end")
        return f"line {mark.line + 1}, column {mark.column + 1}: {said}"
    if hasattr(error, "position") and hasattr(error, "reason") and not isinstance(error, UnicodeError):
        return f"character {error.position + 1}: {error.reason}"  # a character that YAML does not take
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{name}"
    said = re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"\1", str(error))
    return " ".join(said.split()) or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, where the others are a library's own trace; else its kind."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message on an unknown name: the one that was meant; empty where none is like it."""
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
