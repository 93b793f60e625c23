"""`mptctl runs`: list the runs below the run root, and free disk by removing spare checkpoints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.models.requests import RunsRequest

if TYPE_CHECKING:
    from mptctl.models.run_list import RunList

# Modules with torch, which takes seconds to import, are imported after the checks.


def show_runs(asked: RunsRequest) -> None:
    """List the runs below the run root, or remove the checkpoints that finished ones can spare.

    Raises:
        UsageError: there is no such folder, or settings that do not go together.
    """
    run_root = asked.run_root
    if not run_root.is_dir():
        raise UsageError(f"{run_root}: no such folder; name the one with the runs by --run-root")
    if asked.yes and not asked.clean:
        raise UsageError("--yes: goes with --clean")
    if asked.as_json and asked.clean:
        raise UsageError("--json: does not go with --clean")
    from mptctl.models.run_list import list_runs

    run_list = list_runs(run_root)
    if asked.clean:
        _free_disk(run_list, asked.yes)
    elif run_list.runs or asked.as_json:
        show(run_list, "lists:runs_document", as_json=asked.as_json)
    else:
        typer.echo(f"no run below {run_root}", err=True)


def _free_disk(run_list: RunList, yes: bool) -> None:
    """Remove the checkpoints that finished runs can spare, and print what is removed and its size.

    Args:
        run_list: the runs.
        yes: remove without a question.

    Raises:
        UsageError: a question is needed, and there is no terminal.
    """
    from mptctl.models.run_cleaning import find_spare_checkpoints, remove_spare_checkpoints

    spare = find_spare_checkpoints(run_list)
    if not spare:
        typer.echo(f"no finished run below {run_list.run_root} has a checkpoint to spare", err=True)
        return
    for each in spare:
        names = " and ".join(path.name for path in each.files)
        typer.echo(f"{each.run.path}: {names}, {each.freed / 1e6:,.1f} MB")
    freed = f"{sum(each.freed for each in spare) / 1e6:,.1f} MB"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"--clean: would free {freed}, and there is no terminal to ask in; add --yes")
        question = f"Remove them, {freed}? --resume can then no longer train these runs for longer"
        if not typer.confirm(question, err=True):
            typer.echo("nothing was removed", err=True)
            return
    for each in spare:
        remove_spare_checkpoints(each)
    typer.echo(f"freed {freed}")
