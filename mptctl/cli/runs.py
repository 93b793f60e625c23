"""`mptctl runs`: what is below the run root."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


@prints({"--json": "mptctl.models.run_list:RunList"})
def runs(run_root: opt.RunRoot = Path("runs"), as_json: opt.Json = False) -> None:
    """List the runs below the run root: method, state, validation error, when, and whose teacher each was.

    Folders in folders are looked into, so a study's seeds and an ensemble's members are listed too. Every checkpoint
    is read and verified; one that is damaged makes its run broken, and is named.

    Examples:

        mptctl runs

        mptctl runs --run-root runs-cifar10 --json
    """
    from mptctl.errors import UsageError

    if not run_root.is_dir():
        raise UsageError(f"{run_root}: no such folder; name the one with the runs by --run-root")
    from mptctl.models.run_list import list_runs

    found = list_runs(run_root)
    if as_json:
        typer.echo(found.model_dump_json())
    elif not found.runs:
        typer.echo(f"no run below {run_root}", err=True)
    else:
        from rich.console import Console

        from mptctl.report.runs_terminal import print_runs

        print_runs(found.runs, Console())
