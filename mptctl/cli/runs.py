"""`mptctl runs`: what is below the run root."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


@prints({"--json": "mptctl.models.run_list:RunList"})
def runs(run_root: opt.RunRoot = Path("runs"), as_json: opt.Json = False) -> None:
    """List the runs below the run root.

    Shows method, state, validation error, date, and which runs each one taught. Subfolders are searched, so
    that a study's seeds and an ensemble's members are listed. Every checkpoint is verified; a damaged one
    makes its run broken.

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
