"""One case: damage a copy of the inputs, run a command on it, and look at what a user would see."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mptctl.errors import MptctlError
from tests.common import Done
from tests.faults.process import memory_limit, run_forked
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import TARGETS, command_line

# Every exit of the table but 1, which is a bug, and those of signals, which nobody sent.
CODES = {0, *(kind.exit_code for kind in MptctlError.__subclasses__()), 2} - {1}
# Memory beside what the program takes empty; an input of some kilobytes that needs more is a bomb.
MEMORY = 2 * 1024**3
# Seconds of a processor. A case that needs more hangs.
SECONDS = 10
# Folders that a command may write to: run roots, and what its flags name.
MADE = {"runs", "folder", "studied", "made"}


@dataclass(frozen=True)
class Case:
    """What one case was and what came of it.

    Attributes:
        number: that makes it again.
        file: that was damaged; "" for a command line.
        words: of the command line.
        content: of the damaged file.
        done: the exit code, output and memory.
        seconds: that it took.
        fault: what a user should not see; "" where all is well.
    """

    number: int
    file: str
    words: list[str]
    content: bytes
    done: Done
    seconds: float
    fault: str


def run_case(number: int, seed: int, inputs: Path) -> Case:
    """Draw a case by its number and run it.

    Args:
        number: of the case.
        seed: of all cases.
        inputs: folder that `make_inputs` filled.
    """
    rng = random.Random(f"{seed}-{number}")
    target = rng.choices(TARGETS, [target.share for target in TARGETS])[0]
    words = rng.choice(target.commands).split() if target.commands else command_line(rng)
    return run_damaged(inputs, target.file, words, lambda content, name: mutate(content, name, rng), number)


def run_damaged(
    inputs: Path, file: str, words: list[str], damage: Callable[[bytes, str], bytes], number: int = 0
) -> Case:
    """Run a command line on a copy of the inputs of which one file is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        work, spill = Path(folder) / "work", Path(folder) / "tmp"
        _copy(inputs, work, {word.partition("/")[0] for word in [file, *words]})
        spill.mkdir()
        content = b""
        if file:
            path = next(work.glob(f"{file}*"))
            content = damage(path.read_bytes(), path.name)
            path.write_bytes(content)
        before = _listing(work)
        began = time.monotonic()
        done = run_forked(*words, before=_within(work, spill), at_most=6 * SECONDS)
        seconds = time.monotonic() - began
        fault = _fault(done, words) or _strays(before, work, spill, words)
    return Case(number, file, words, content, done, seconds, fault)


def _copy(inputs: Path, work: Path, named: set[str]) -> None:
    """All files, and of the folders those that are named; the default run root is one."""
    work.mkdir()
    for path in inputs.iterdir():
        if path.is_file():
            shutil.copy2(path, work)
        elif path.name in {"runs", *named}:
            shutil.copytree(path, work / path.name)


def _within(work: Path, spill: Path) -> Callable[[], None]:
    limit = memory_limit(MEMORY)

    def enter() -> None:
        os.chdir(work)
        os.environ["TMPDIR"] = str(spill)
        os.environ["COLUMNS"] = "120"
        tempfile.tempdir = None
        limit()

    return enter


def _fault(done: Done, words: Sequence[str]) -> str:
    if done.returncode not in CODES:
        return f"exit code {done.returncode}"
    said = done.stdout + done.stderr
    if "Traceback" in said and "--debug" not in words:  # which asks for it
        return "a traceback"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", said):
        return "a control character in the output"
    for sign in ("Value error,", "[Errno", "<unicode string>", "object at 0x", "<class '"):
        if sign in done.stderr:
            return f"{sign!r} in the message"
    if done.returncode not in (0, 3):
        lines = [line for line in done.stderr.splitlines() if line.startswith("mptctl: ")]
        if not lines or done.stderr.strip().splitlines()[-1] != lines[-1]:
            return "does not end with a line of mptctl's"
        if len(lines[-1]) > 1500:
            return f"a message of {len(lines[-1]):,} characters"
    return ""


def _listing(work: Path) -> dict[str, tuple[int, int]]:
    """Size and time of all files that no command may change."""
    found = {}
    for path in work.rglob("*"):
        if path.is_file() and path.relative_to(work).parts[0] not in MADE:
            found[str(path.relative_to(work))] = (path.stat().st_size, path.stat().st_mtime_ns)
    return found


def _strays(before: dict[str, tuple[int, int]], work: Path, spill: Path, words: list[str]) -> str:
    left = [path.name for path in spill.iterdir()]
    if left:
        return f"left {left[0]} in the temporary folder"
    after = _listing(work)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    strays = [name for name in changed if not any(word and word in name for word in words)]
    return f"wrote {strays[0]}, which nobody named" if strays else ""
