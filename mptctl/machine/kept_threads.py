"""The number of threads that trains a model fastest here, found by timing, kept in the user's cache."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from mptctl.errors import StorageError
from mptctl.files import Model, write_atomically
from mptctl.machine.facts import cpu_name, usable_cores, version_of


class KeptThreads(Model):
    """The finding of a timing for one model on one machine."""

    machine: str = Field(description="processor, usable cores, and version of torch")
    model: str = Field(description="what decides how long a step is, by which it is found again")
    name: str = Field(description="what a person calls that: architecture, picture size, batch, method")
    threads: int = Field(gt=0, description="with which a step is shortest")
    step_ms: dict[int, float] = Field(description="milliseconds of a step by number of threads, as timed")


class ThreadsFile(Model):
    """``threads.json`` in the cache folder."""

    found: list[KeptThreads] = Field(description="one for each model and machine")


def threads_file() -> Path | None:
    """The file ``mptctl/threads.json`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; None without a home folder."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(folder) if folder else Path.home() / ".cache") / "mptctl" / "threads.json"
    except RuntimeError:  # a user who is in no list of users, as in some containers
        return None


def machine_key() -> str:
    """The machine of a timing; with another processor, core or torch another number may be best."""
    return f"{cpu_name()}, {usable_cores()} cores, torch {version_of('torch')}"


def kept_here() -> list[KeptThreads]:
    """The findings for this machine; a file that is damaged or cannot be read counts as none."""
    machine = machine_key()
    return [kept for kept in _read() if kept.machine == machine]


def keep(found: KeptThreads) -> None:
    """Keep a finding in place of the one for that model on that machine; a full disk is no failure."""
    others = [kept for kept in _read() if (kept.machine, kept.model) != (found.machine, found.model)]
    content = ThreadsFile(found=[*others, found]).model_dump_json(indent=2)
    path = threads_file()
    if path is not None:
        with suppress(StorageError):
            write_atomically(path, content.encode())


def _read() -> list[KeptThreads]:
    path = threads_file()
    try:
        return [] if path is None else ThreadsFile.model_validate_json(path.read_bytes()).found
    except (OSError, ValidationError):
        return []
