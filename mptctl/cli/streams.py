"""Standard output and error that may be closed or full: the work goes on, and its exit code stays."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import TextIO

import typer

# What a program reads that called this one: an output that is cut short would be taken for the whole.
READ_BY_PROGRAMS = {"--json", "--print-recipe", "-"}
# What the runner of a GitHub workflow obeys (actions/runner, ActionCommand.cs): `::` where a line begins,
# blanks before it or not, and `##[` anywhere.
COMMAND = re.compile(r"(?P<blanks>(?:\A|[\r\n])\s*)(?P<first>:)(?=:)|(?P<hash>#)(?=#\[)")


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


class _WithoutCommands(io.TextIOWrapper):
    """Text in which no line is a command to the runner of a workflow: its first sign stands as ``\\xNN``."""

    blank = True  # whether nothing but blanks stands in the line so far

    def write(self, text: str) -> int:
        whole = text if self.blank else f"_{text}"
        safe = COMMAND.sub(_with_first_sign_as_number, whole)
        self.write_commands(safe if self.blank else safe[1:])
        return len(text)

    def write_commands(self, text: str) -> None:
        """Write text as it is."""
        super().write(text)
        begun = re.split(r"[\r\n]", text)[-1]
        self.blank = not begun.strip() and (self.blank or len(begun) < len(text))


def _with_first_sign_as_number(found: re.Match[str]) -> str:
    sign = found["first"] or found["hash"]
    return f"{found['blanks'] or ''}\\x{ord(sign):02x}"


def write_commands(text: str) -> None:
    """Write lines to standard error that are commands to the runner of a workflow."""
    if isinstance(sys.stderr, _WithoutCommands):
        sys.stderr.write_commands(text)
    else:
        sys.stderr.write(text)


def outputs_are_one() -> bool:
    """Tells whether standard output and error go to one place, such as a terminal or a log."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:
        return False


def take_what_comes() -> None:
    """Put streams in the place of standard output and error that no write to them can fail.

    What their encoding does not have is written as ``\\uNNNN``. A stream that is closed stays so: its number
    goes to the null device, so that no file that is opened later gets it.
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
    kind = _WithoutCommands if os.environ.get("GITHUB_ACTIONS") else io.TextIOWrapper
    return kind(
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
