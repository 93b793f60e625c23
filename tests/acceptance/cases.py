"""A command, how it must end, and what must be there afterwards: rows of tables, and how a row is checked."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.common import CommandLine, files_below


@dataclass(frozen=True)
class Case:
    """A command line in a prepared folder, and its outcome.

    Attributes:
        line: the words after ``mptctl``, as one types them in that folder.
        code: the exit code.
        named: what the error names: a file, a flag or a key; of a success, what standard output has in it.
        files: what is there afterwards; a refused command and a dry run leave nothing else.
        before: called with the folder first, to damage what is in it.
    """

    line: str
    code: int = 0
    named: str = ""
    files: tuple[str, ...] = ()
    before: Callable[[Path], object] | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.line}"


# Codes of commands that wrote nothing but what their case names: wrong usage, a gate that fails, data and checkpoints.
REFUSED = (2, 3, 4, 5)
# What a refused command may leave: what it read of pictures, and models' kept predictions.
CACHES = ("cache", "answers.npz")


def check(case: Case, place: Path, mptctl: CommandLine) -> Any:
    """Run a case in its folder, which is the working folder, and return the JSON that it printed, if it did.

    Of an error: the exit code, one line on standard error that names what it is about, no traceback; and where the
    command was refused, not a file more or less.
    """
    if case.before is not None:
        case.before(place)
    present = _files(place)
    done = mptctl(*shlex.split(case.line))
    said = [line for line in done.stderr.splitlines() if line.startswith("mptctl: ")]
    assert done.returncode == case.code, (done.stderr or done.stdout)[-2000:]
    assert "Traceback" not in done.stderr
    if case.code:
        assert len(said) == 1, done.stderr
        assert case.named in said[0], said[0]
    if case.code in REFUSED:
        new = [name for name in _files(place) - present if not name.startswith(case.files or "\n")]
        assert new == [], new
        assert present <= _files(place)
        assert not done.stdout or case.code == 3
    elif case.code == 0:
        assert not said, done.stderr
        assert case.named in done.stdout, done.stdout
        assert "--dry-run" not in case.line or _files(place) == present
    for name in case.files:
        assert (place / name).exists(), f"{name} is not there: {sorted(_files(place) - present)}"
    if "--json" not in case.line.split() or not done.stdout:
        return None
    printed = json.loads(done.stdout)
    assert isinstance(printed, dict)
    return printed


def _files(place: Path) -> set[str]:
    """Names of all files, and their sizes, but for caches."""
    names = ((os.path.relpath(file.path, place), file.stat().st_size) for file in files_below(place))
    return {f"{name} {size}" for name, size in names if not set(CACHES) & set(name.split(os.sep))}


def put(path: Path, content: bytes) -> None:
    """Put a new file in the place of one that other tests share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def written(name: str, text: str) -> Callable[[Path], object]:
    """Write a file before the command."""
    return lambda place: put(place / name, text.encode())


def cut(name: str, size: int = 60) -> Callable[[Path], object]:
    """Cut a file short before the command."""
    return lambda place: put(place / name, (place / name).read_bytes()[:size])


def gone(name: str) -> Callable[[Path], object]:
    """Remove a file before the command."""
    return lambda place: (place / name).unlink()
