"""Errors that a user can act on: one line each, with the exit code that the command ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

# True while messages go to the caller of a Python function, who gives arguments and not options.
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
    """A release gate, a search for an acceptable release, or the check of an export did not pass."""

    exit_code = 3


class DataError(MptctlError):
    """Pictures, a split or predictions that are missing, damaged or contradictory."""

    exit_code = 4


class CheckpointError(MptctlError):
    """A checkpoint that is damaged, foreign, unsafe, or does not fit what it is used for."""

    exit_code = 5


class NonFiniteError(MptctlError):
    """A loss, gradient, logit or weight that is NaN or infinite."""

    exit_code = 6


class StorageError(MptctlError):
    """A disk that is full, a folder that cannot be written, or memory that is too small.

    Args:
        message: what is wrong.
        full: the disk is full; the command line then says how to resume, if the command can be resumed.
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
        resumable: ``--resume`` goes on from what was saved; the command line then says how.
    """

    def __init__(self, message: str, signum: int, *, resumable: bool = False) -> None:
        super().__init__(message)
        self.signum = signum
        self.resumable = resumable
        self.exit_code = 128 + signum


class ComparisonWarning(UserWarning):
    """A remark on a comparison that was called from Python; the command line prints it instead."""


def option(name: str) -> str:
    """Spell an option as its user writes it: ``--old-classes``, and in Python ``old_classes``.

    Args:
        name: the option with dashes, such as ``old-classes``.
    """
    return name.replace("-", "_") if _as_arguments.get() else f"--{name}"


@contextmanager
def options_as_arguments() -> Iterator[None]:
    """Make `option` spell options as arguments of Python until the block ends."""
    token = _as_arguments.set(True)
    try:
        yield
    finally:
        _as_arguments.reset(token)


def some(names: Iterable[object], limit: int = 3, separator: str = ", ") -> str:
    """List the first few of many names for a message: ``a, b, c and 4 more``.

    Args:
        names: things with a name; the first ones are listed.
        limit: how many are listed.
        separator: text between two names.
    """
    words = [str(name) for name in names]
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return separator.join(words[:limit]) + more


def visible(text: str) -> str:
    """Make a text from outside safe to print: escape line breaks and what would move a terminal's cursor.

    Args:
        text: a name of a class, a file or a run, or a message with such names.

    Returns:
        The text with Python's escape, such as ``\\x1b``, for each character that is not printable.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# What a file that people open shows as something else than it is, or not at all: control characters but tab
# and ends of lines, and marks that turn the direction of text.
_DECEPTIVE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def inert(text: str) -> str:
    """Make a text from outside safe for pages and tables: escape what a reader would not see as it stands.

    >>> inert("a\u202eb") == "a" + chr(92) + "u202eb"
    True

    Args:
        text: a name of a class or a sample.

    Returns:
        The text with Python's escape, such as ``\\u202e``, for each control character but tab and ends of
        lines, and for each mark that turns the direction of text.
    """
    return _DECEPTIVE.sub(lambda found: ascii(found[0])[1:-1], text)


def encodable(text: str) -> str:
    """Escape what UTF-8 cannot hold, such as a byte of a file's name that is no UTF-8: ``\\udce9``."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(error: BaseException) -> str:
    """Return the message of an exception without line breaks; its type where the message is empty.

    - YAML: where in the text the error is, and what is wrong there.
    - The system (OSError): its words and the file, without the error number.
    - Others: an object that Python shows by its address is shown by its type.
    """
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        parts = (getattr(error, name, None) for name in ("context", "problem"))
        problem = "; ".join(str(part) for part in parts if part).replace("'<stream end>'", "the end")
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    if hasattr(error, "position") and hasattr(error, "reason") and not isinstance(error, UnicodeError):
        return f"character {error.position + 1}: {error.reason}"  # a character that YAML does not allow
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{name}"
    message = re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"\1", str(error))
    return " ".join(message.split()) or type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message that is not blank; its type where there is none.

    For libraries that write a trace of their own into the lines that follow.
    """
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name, ``; did you mean NAME?``; empty if none is similar."""
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
