"""Standard output and error that may be closed or full: the work goes on, and its exit code stays."""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
from collections.abc import Sequence
from typing import TextIO

import typer

# Words of a command line whose output a program reads, which would take a cut output for the whole.
READ_BY_PROGRAMS = {"--json", "--print-recipe", "-"}
# What the runner of a GitHub workflow obeys (actions/runner, ActionCommand.cs): `::` where a line begins,
# blanks before it or not, and `##[` anywhere. The begin of a text counts as the begin of a line.
COMMAND = re.compile(r"((?:\A|[\r\n])\s*):(?=:)|#(?=#\[)")
# The end of a text that a later text could complete to a command: blanks where a line begins, with a colon or
# without, or signs `#`.
_BEGUN = re.compile(r"(?:[\r\n][^\S\r\n]*:?|##?)\Z")


class _Descriptor(io.RawIOBase):
    """A raw stream whose writes never fail: after the first error, kept as `problem`, all text is dropped."""

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
        while self.problem is None:
            try:
                return os.write(self.number, content)
            except BlockingIOError:  # a full pipe that its owner has told not to wait
                select.select([], [self.number], [])
            except OSError as error:
                self.problem = error
        return len(content)


class _WithoutCommands(io.TextIOWrapper):
    """Text in which nothing is a command to the runner of a workflow: its first sign stands as ``\\xNN``."""

    # The end of the last text, if the next text could complete it to a command; else empty.
    _begun = "\n"

    def write(self, text: str) -> int:
        safe = COMMAND.sub(lambda found: f"{found[1] or ''}{_spelt_out(found[0][-1])}", text)
        if COMMAND.search(self._begun + safe):
            safe = _spelt_out(safe[0]) + safe[1:]
        self.write_as_is(safe)
        return len(text)

    def write_as_is(self, text: str) -> None:
        """Write text in which commands stay commands."""
        begun = _BEGUN.search(self._begun + text)
        self._begun = begun[0] if begun else ""
        super().write(text)


def _spelt_out(sign: str) -> str:
    """Return a sign as ``\\xNN``."""
    return f"\\x{ord(sign):02x}"


def write_commands(text: str) -> None:
    """Write lines to standard error that are commands to the runner of a workflow."""
    if isinstance(sys.stderr, _WithoutCommands):
        sys.stderr.write_as_is(text)
    else:
        sys.stderr.write(text)


def outputs_are_one() -> bool:
    """Tells whether standard output and error go to one place, such as a terminal; no if one is closed."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:
        return False


def make_outputs_unfailing() -> None:
    """Replace standard output and error by streams on which no write raises an error.

    Characters that their encoding lacks are written as ``\\uNNNN``. A stream that is closed stays closed: its
    descriptor is opened on the null device, so that no file that is opened later gets its number.
    """
    sys.stdout = _unfailing_stream(sys.stdout, 1)
    sys.stderr = _unfailing_stream(sys.stderr, 2)


def _unfailing_stream(before: TextIO | None, number: int) -> TextIO:
    """Make a stream that never fails, in the place of ``before``; None: descriptor ``number`` is closed."""
    problem = None
    descriptor = number if before is None else before.fileno()
    if before is None:
        problem = OSError(errno.EBADF, os.strerror(errno.EBADF))
        null = os.open(os.devnull, os.O_WRONLY)
        if null != number:
            os.dup2(null, number, inheritable=True)
            os.close(null)
    raw = _Descriptor(descriptor, problem)
    kind = _WithoutCommands if os.environ.get("GITHUB_ACTIONS") else io.TextIOWrapper
    return kind(
        io.BufferedWriter(raw),  # type: ignore[type-var]  # a RawIOBase, of which typeshed wants more
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or descriptor == 2,
    )


def flush_output(code: int, words: Sequence[str]) -> int:
    """Flush standard output, print on standard error that it could not be written, and return the exit code.

    A pipe whose reader has gone is no failure, unless the output is one that a program reads.

    Args:
        code: exit code of the command itself.
        words: of the command line, without the program.

    Returns:
        The code of the command, but 7 instead of 0 where a program would read a cut output.
    """
    sys.stdout.flush()
    problem = _write_error(sys.stdout)
    if problem is None:
        return code
    misleads_program = bool(READ_BY_PROGRAMS & set(words))
    if misleads_program or not isinstance(problem, BrokenPipeError):
        advice = (
            "make room, or write it elsewhere" if misleads_program else "the exit code is that of the work"
        )
        typer.echo(
            f"mptctl: standard output cannot be written ({problem.strerror}); {advice}",
            err=True,
        )
    return 7 if misleads_program and code == 0 else code


def _write_error(stream: TextIO) -> OSError | None:
    """The first error in writing an unfailing stream; None without one, and for any other stream."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.problem if isinstance(raw, _Descriptor) else None
