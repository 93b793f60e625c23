"""The runs below a run root: their states, and whose teachers they were."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from mptctl.errors import MptctlError, one_line
from mptctl.files import Model
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.lock import is_free
from mptctl.models.metrics_log import read_metrics
from mptctl.models.ownership import LOCK, NOT_RUNS, is_run
from mptctl.models.run_folder import RunDir
from mptctl.names import MethodName
from mptctl.recipe import load_recipe

RunState = Literal["finished", "running", "interrupted", "imported", "broken"]


class RunEntry(Model):
    """One run below the run root."""

    run: str = Field(description="its folder, relative to the run root")
    state: RunState = Field(
        description="finished; running: another process writes it; interrupted: --resume goes on; imported; "
        "broken"
    )
    method: MethodName | None = Field(description="null for an imported model, and where it cannot be read")
    epoch: int | None = Field(
        description="of the last line of its metrics, counted from 1; null where there is none"
    )
    epochs: int | None = Field(description="of the whole run")
    val_error: float | None = Field(
        description="validation error of `best`, a fraction; null without one, or without a validation part"
    )
    when: str = Field(description="local time when it was written last, ISO 8601")
    teacher_of: list[str] = Field(description="runs below this run root that its `best` has taught")
    problem: str | None = Field(description="what is wrong with a broken run")


class RunList(Model):
    """The object that `runs` prints with ``--json``."""

    run_root: str = Field(description="the folder that was looked into, with all folders in it")
    runs: list[RunEntry] = Field(description="by their folders, numbers by their value")


class _Found(NamedTuple):
    """A run of the list: its entry without ``teacher_of``, its digest, and the digests of its teachers."""

    entry: RunEntry
    digest: str | None
    teachers: frozenset[str]


def list_runs(run_root: Path) -> RunList:
    """List every run below a folder; each checkpoint is read and verified.

    Args:
        run_root: where runs and folders of runs are; links are not followed.
    """
    found = [
        _describe_run(folder, folder.relative_to(run_root).as_posix()) for folder in _run_folders(run_root)
    ]
    entries = []
    for run in found:
        taught = [other.entry.run for other in found if run.digest in other.teachers]
        entries.append(run.entry.model_copy(update={"teacher_of": taught}))
    return RunList(run_root=str(run_root), runs=entries)


def _run_folders(run_root: Path) -> Iterator[Path]:
    """Folders of runs at any depth, in the order of their names, without links and hidden ones."""
    for folder, inside, _ in os.walk(run_root):
        inside[:] = sorted(
            (name for name in inside if name not in NOT_RUNS and not name.startswith(".")), key=_by_number
        )
        run = RunDir(Path(folder))
        written = any(path.is_file() for path in (run.best, run.last, run.previous, run.metrics))
        # A damaged run fails `is_run`, so a lock beside its files is enough; other programs' files have none.
        has_lock = (run.path / LOCK).is_file()
        if (written and has_lock) or ((written or run.environment.is_file()) and is_run(run.path)):
            yield run.path


def _by_number(name: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers in names by value, and before other text."""
    return [(int(digits) if digits else 10**9, rest) for digits, rest in re.findall(r"(\d*)(\D*)", name)]


def _describe_run(folder: Path, name: str) -> _Found:
    """Describe a run by its folder; the entry is "broken" until everything has been read."""
    run = RunDir(folder)
    files = [run.metrics, run.last, run.previous, run.best, run.environment]
    written = max(path.stat().st_mtime for path in files if path.is_file())
    entry = RunEntry(
        run=name,
        state="broken",
        method=None,
        epoch=None,
        epochs=None,
        val_error=None,
        when=datetime.fromtimestamp(written).astimezone().isoformat(timespec="seconds"),
        teacher_of=[],
        problem=None,
    )
    try:
        free, lines = is_free(folder), read_metrics(run.metrics)
        best = load_checkpoint(run.best) if run.best.is_file() else None
        last = load_checkpoint(run.last) if best is None and run.last.is_file() else None
        checkpoint = best or last
        # A run that was ended before its first checkpoint has the recipe that it began with.
        recipe = (
            checkpoint.meta.recipe if checkpoint is not None else load_recipe(str(run.recipe), of_run=True)
        )
    except (MptctlError, OSError) as error:
        problem = one_line(error).removeprefix(f"{folder}{os.sep}")
        return _Found(entry.model_copy(update={"problem": problem}), None, frozenset())
    imported = checkpoint is not None and checkpoint.meta.origin == "imported"
    state: RunState = "imported" if imported else "finished" if run.is_finished() else "interrupted"
    known = {
        "state": state if free else "running",
        "method": None if imported else recipe.method.name,
        "epoch": lines[-1].epoch if lines else None,
        "epochs": None if imported else recipe.optim.epochs,
        "val_error": None if best is None else best.meta.best_error,
    }
    return _Found(
        entry.model_copy(update=known),
        None if best is None else best.digest,
        frozenset(() if checkpoint is None else checkpoint.meta.teachers.values()),
    )
