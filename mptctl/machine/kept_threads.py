"""Keeps in the user's cache with how many threads each model trains fastest on a machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from mptctl.errors import StorageError
from mptctl.files import Model, write_atomically
from mptctl.machine.facts import cpu_name, usable_cores, version_of


class KeptThreads(Model):
    """The fastest number of threads for one model on one machine, found by timing."""

    machine: str = Field(description="processor, usable cores, and version of torch")
    model: str = Field(description="key of the model: everything that decides how long a step takes")
    name: str = Field(description="the model for people: architecture, picture size, batch, method")
    threads: int = Field(gt=0, description="number of threads with the shortest step")
    step_ms: dict[int, float] = Field(description="milliseconds of a step, by number of threads")


class ThreadsFile(Model):
    """``threads.json`` in the cache folder."""

    found: list[KeptThreads] = Field(description="timings, one for each model and machine")


def threads_file() -> Path | None:
    """The file ``mptctl/threads.json`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; None without a home folder."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(folder) if folder else Path.home() / ".cache") / "mptctl" / "threads.json"
    except RuntimeError:  # the user has no home folder, as in some containers
        return None


def machine_key() -> str:
    """The key of this machine for timings: processor, number of usable cores, version of torch."""
    return f"{cpu_name()}, {usable_cores()} cores, torch {version_of('torch')}"


def read_kept_threads() -> list[KeptThreads]:
    """Read the timings on this machine; an empty list if the file is missing or damaged."""
    machine = machine_key()
    return [kept for kept in _read_all() if kept.machine == machine]


def keep_threads(timing: KeptThreads) -> None:
    """Write a timing into the cache; it replaces that of the same model and machine.

    Without a home folder, or if the file cannot be written, nothing is kept and no error is raised.
    """
    others = [kept for kept in _read_all() if (kept.machine, kept.model) != (timing.machine, timing.model)]
    content = ThreadsFile(found=[*others, timing]).model_dump_json(indent=2)
    path = threads_file()
    if path is not None:
        with suppress(StorageError):
            write_atomically(path, content.encode())


def _read_all() -> list[KeptThreads]:
    """Read the timings on all machines; an empty list if the file is missing or damaged."""
    path = threads_file()
    try:
        return [] if path is None else ThreadsFile.model_validate_json(path.read_bytes()).found
    except (OSError, ValidationError):
        return []
