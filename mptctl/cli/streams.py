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
        # Within a line, a sign put before the text keeps `\A` from matching; it is taken off again.
        whole = text if self.blank else f"_{text}"
        safe = COMMAND.sub(_with_first_sign_as_number, whole)
        self.write_unchanged(safe if self.blank else safe[1:])
        return len(text)

    def write_unchanged(self, text: str) -> None:
        """Write text as it is, commands too, and note whether the line that it leaves open is blank."""
        super().write(text)
        begun = re.split(r"[\r\n]", text)[-1]
        is_new_line = len(begun) < len(text)
        self.blank = not begun.strip() and (is_new_line or self.blank)


def _with_first_sign_as_number(found: re.Match[str]) -> str:
    sign = found["first"] or found["hash"]
    return f"{found['blanks'] or ''}\\x{ord(sign):02x}"


def write_commands(text: str) -> None:
    """Write lines to standard error that are commands to the runner of a workflow."""
    if isinstance(sys.stderr, _WithoutCommands):
        sys.stderr.write_unchanged(text)
    else:
        sys.stderr.write(text)


def outputs_are_one() -> bool:
    """Tells whether standard output and error go to one place, such as a terminal or a log."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:
        return False


def make_outputs_unfailing() -> None:
    """Replace standard output and error by streams on which no write raises an error.

    What their encoding does not have is written as ``\\uNNNN``. A stream that is closed stays so: its number
    goes to the null device, so that no file that is opened later gets it.
    """
    sys.stdout = _stream(sys.stdout, 1)
    sys.stderr = _stream(sys.stderr, 2)


def _stream(before: TextIO | None, number: int) -> TextIO:
    """A stream that never fails, in the place of `before`; None: descriptor `number` is closed."""
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
    """Flush standard output, and say on standard error if it could not be written.

    A pipe whose reader has gone is no failure, unless the output is one that a program reads.

    Args:
        code: of the work itself.
        words: of the command line, without the program.

    Returns:
        The exit code: that of the work, but 7 instead of 0 where a program would read a cut output.
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
