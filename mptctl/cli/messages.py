"""Lines for a person: warnings, the command to type next, and the command that resumes this one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from mptctl.errors import visible


def warn(warnings: Iterable[str]) -> None:
    """Print each warning on a line of standard error."""
    for warning in warnings:
        typer.echo(f"warning: {visible(warning)}", err=True)


def next_command(words: list[str], run_root: Path = Path("runs")) -> str:
    """The line ``next: mptctl ...`` with the command to type next.

    Args:
        words: command and arguments.
        run_root: added as ``--run-root`` unless it is the default.
    """
    root = [] if run_root == Path("runs") else ["--run-root", str(run_root)]
    return f"next: {shlex.join(['mptctl', *words, *root])}"


def resume_command() -> str:
    """The command line of this process with ``--resume``, and without ``--overwrite``."""
    program = Path(sys.argv[0]).name
    words = ["python", "-m", "mptctl"] if program == "__main__.py" else [program]
    words += [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return shlex.join([*words, "--resume"])
