"""`mptctl runs`: list the runs below the run root, and free disk by removing spare checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show
from mptctl.errors import UsageError

if TYPE_CHECKING:
    from mptctl.models.run_list import RunList


@prints({"--json": "mptctl.models.run_list:RunList"})
def runs(
    run_root: opt.RunRoot = Path("runs"),
    as_json: opt.Json = False,
    clean: Annotated[
        bool,
        typer.Option("--clean", help="Remove last.pt and previous.pt of finished runs, after a question."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --clean: remove without a question.")
    ] = False,
) -> None:
    """List the runs below the run root.

    Shows method, state, validation error, date, and which runs each one taught. Subfolders are searched, so
    that a study's seeds and an ensemble's members are listed. Every checkpoint is verified; a damaged one
    makes its run broken.

    --clean removes what a finished run needs only for --resume. Afterwards --resume can no longer train it
    for longer; best.pt stays.

    Examples:

        mptctl runs

        mptctl runs --run-root runs-cifar10 --json

        mptctl runs --clean
    """
    if not run_root.is_dir():
        raise UsageError(f"{run_root}: no such folder; name the one with the runs by --run-root")
    if yes and not clean:
        raise UsageError("--yes: goes with --clean")
    if as_json and clean:
        raise UsageError("--json: does not go with --clean")
    from mptctl.models.run_list import list_runs

    run_list = list_runs(run_root)
    if clean:
        _free_disk(run_list, yes)
    elif run_list.runs or as_json:
        show(run_list, "lists:runs_document", as_json=as_json)
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
