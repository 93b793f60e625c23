"""`mptctl runs`: list the runs below the run root."""

from __future__ import annotations

import typer

from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.files.request import RootRequest


def show_runs(asked: RootRequest) -> None:
    """List the runs below the run root.

    Raises:
        UsageError: there is no such folder.
    """
    run_root = asked.run_root
    if not run_root.is_dir():
        raise UsageError(f"{run_root}: no such folder; name the one with the runs by --run-root")
    # Imported after the check, because torch takes seconds.
    from mptctl.models.run_list import list_runs
    from mptctl.report.documents.lists import runs_document

    run_list = list_runs(run_root)
    if run_list.runs or asked.as_json:
        show(run_list, runs_document, as_json=asked.as_json)
    else:
        typer.echo(f"no run below {run_root}", err=True)
