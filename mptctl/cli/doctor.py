"""`mptctl doctor`: what is usable on this machine."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


@prints({"--json": "mptctl.machine.doctor:DoctorReport"})
def doctor(run_root: opt.RunRoot = Path("runs"), as_json: opt.Json = False) -> None:
    """Say what is installed, what works here, and what to do.

    Examples:

        mptctl doctor

        mptctl doctor --json
    """
    from mptctl.machine.doctor import DoctorReport, conclusion, examine

    checks = examine(run_root)
    if as_json:
        typer.echo(DoctorReport(checks=checks, conclusion=conclusion(checks)).model_dump_json())
        return
    from rich.console import Console

    from mptctl.report.documents.doctor import print_doctor

    print_doctor(checks, conclusion(checks), Console())
