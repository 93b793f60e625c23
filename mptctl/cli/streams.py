"""Standard output and error that may be closed or full: the work goes on, and its exit code stays."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import typer

# What a program reads that called this one: an output that is cut short would be taken for the whole.
READ_BY_PROGRAMS = {"--json", "--print-recipe", "-"}


class _Descriptor(io.RawIOBase):
    """A descriptor that takes everything, and keeps what kept the first write from it."""

    def __init__(self, number: int, problem: OSError | None) -> None:
        self.number = number
        self.problem = problem

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.number

    def isatty(self) -> bool:
        return self.problem is None and os.isatty(self.number)

    def write(self, content: bytes) -> int:  # type: ignore[override]  # RawIOBase takes any buffer
        if self.problem is None:
            try:
                return os.write(self.number, content)
            except OSError as error:
                self.problem = error
        return len(content)


def take_what_comes() -> None:
    """Put streams in the place of standard output and error that no write to them can fail.

    What their encoding does not have is written as ``\\uNNNN``. A stream that is closed stays so: its number goes to
    the null device, so that no file that is opened later gets it.
    """
    sys.stdout = _stream(sys.stdout, 1)
    sys.stderr = _stream(sys.stderr, 2)


def _stream(before: TextIO | None, number: int) -> TextIO:
    problem = None
    if before is None:
        problem = OSError(errno.EBADF, os.strerror(errno.EBADF))
        null = os.open(os.devnull, os.O_WRONLY)
        if null != number:
            os.dup2(null, number, inheritable=True)
            os.close(null)
    else:
        number = before.fileno()
    raw = _Descriptor(number, problem)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),  # type: ignore[type-var]  # a RawIOBase, of which typeshed wants more
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or number == 2,
    )


def code_with_output(code: int, words: Sequence[str]) -> int:
    """The exit code of work whose output may not have been written.

    Args:
        code: of the work itself, which stays where it is not 0.
        words: of the command line, without the program.

    Returns:
        7 where an output that another program reads was not written as a whole.
    """
    sys.stdout.flush()
    problem = _problem(sys.stdout)
    if problem is None:
        return code
    lost = bool(READ_BY_PROGRAMS & set(words))
    if lost or not isinstance(problem, BrokenPipeError):
        advice = "make room, or write it elsewhere" if lost else "the exit code is that of the work"
        typer.echo(
            f"mptctl: standard output cannot be written ({problem.strerror}); {advice}",
            err=True,
        )
    return code or (7 if lost else 0)


def _problem(stream: TextIO) -> OSError | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.problem if isinstance(raw, _Descriptor) else None
