"""Lists the runs below a run root, with their states."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from mptctl.errors import MptctlError, one_line
from mptctl.files import Model
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.lock import is_free
from mptctl.models.metrics_log import read_metrics
from mptctl.models.ownership import LOCK, NOT_RUNS, is_run
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe

RunState = Literal["finished", "running", "interrupted", "imported", "broken"]


class RunEntry(Model):
    """A run below the run root."""

    run: str = Field(description="the run's folder, relative to the run root")
    state: RunState = Field(
        description="finished; running: another process writes it; interrupted: --resume goes on; imported; "
        "broken"
    )
    method: str | None = Field(None, description="null for an imported model, and if the run cannot be read")
    epoch: int | None = Field(
        None, description="of the last line of the run's metrics, counted from 1; null without metrics"
    )
    epochs: int | None = Field(None, description="of the whole run")
    val_error: float | None = Field(
        None,
        description="validation error of `best.pt`, a fraction; null without such a file or a validation "
        "part",
    )
    when: str = Field(description="local time of the run's last write, ISO 8601")
    problem: str | None = Field(None, description="what is wrong with a broken run")


class RunList(Model):
    """The object that `runs` prints with ``--json``."""

    run_root: str = Field(description="the folder that was searched, with all folders in it")
    runs: list[RunEntry] = Field(description="sorted by folder; numbers in names sort by value")


def list_runs(run_root: Path) -> RunList:
    """List every run below a folder, after reading and verifying its checkpoints.

    Args:
        run_root: folder that is searched at any depth; links are not followed. A run that cannot be read is
            listed as "broken".
    """
    runs = [
        _describe_run(folder, folder.relative_to(run_root).as_posix()) for folder in _run_folders(run_root)
    ]
    return RunList(run_root=str(run_root), runs=runs)


def _run_folders(run_root: Path) -> Iterator[Path]:
    """Yield the folders of runs at any depth, sorted by name; links and hidden folders are skipped."""
    for folder, subfolders, _ in os.walk(run_root):
        names = [name for name in subfolders if name not in NOT_RUNS and not name.startswith(".")]
        subfolders[:] = sorted(names, key=_numeric_sort_key)  # os.walk goes on with what is in this list
        run = RunDir(Path(folder))
        written = any(path.is_file() for path in (run.best, run.last, run.previous, run.metrics))
        # A lock beside a run's files is enough: other programs' files have none, and a damaged run fails
        # `is_run`.
        has_lock = (run.path / LOCK).is_file()
        if (written and has_lock) or ((written or run.environment.is_file()) and is_run(run.path)):
            yield run.path


def _numeric_sort_key(name: str) -> list[tuple[int, str]]:
    """Sort key that orders numbers in names by value, and numbers before other text."""
    return [(int(digits) if digits else 10**9, text) for digits, text in re.findall(r"(\d*)(\D*)", name)]


def _describe_run(folder: Path, name: str) -> RunEntry:
    """Read and describe the run in a folder; a run that cannot be read is "broken".

    Args:
        folder: the run folder.
        name: value of `RunEntry.run`.
    """
    run = RunDir(folder)
    files = [run.metrics, run.last, run.previous, run.best, run.environment]
    written = max(path.stat().st_mtime for path in files if path.is_file())
    when = datetime.fromtimestamp(written).astimezone().isoformat(timespec="seconds")
    try:
        free, lines = is_free(folder), read_metrics(run.metrics)
        best = load_checkpoint(run.best) if run.best.is_file() else None
        last = load_checkpoint(run.last) if best is None and run.last.is_file() else None
        checkpoint = best or last
        # A run that ended before its first checkpoint has a recipe file.
        recipe = (
            checkpoint.meta.recipe if checkpoint is not None else load_recipe(str(run.recipe), of_run=True)
        )
    except (MptctlError, OSError) as error:
        problem = one_line(error).removeprefix(f"{folder}{os.sep}")
        return RunEntry(run=name, state="broken", when=when, problem=problem)
    is_imported = checkpoint is not None and checkpoint.meta.origin == "imported"
    state: RunState = "finished" if run.is_finished() else "interrupted"
    if not free:
        state = "running"
    elif is_imported:
        state = "imported"
    return RunEntry(
        run=name,
        state=state,
        method=None if is_imported else recipe.method.name,
        epoch=lines[-1].epoch if lines else None,
        epochs=None if is_imported else recipe.optim.epochs,
        val_error=None if best is None else best.meta.best_error,
        when=when,
    )
