"""`mptctl doctor`: check what is installed and works on this machine."""

from __future__ import annotations

from pathlib import Path

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show


@prints({"--json": "mptctl.machine.doctor:DoctorReport"})
def doctor(run_root: opt.RunRoot = Path("runs"), as_json: opt.Json = False) -> None:
    """Say what is installed, what works here, and what to do.

    Examples:

        mptctl doctor

        mptctl doctor --json
    """
    from mptctl.machine.doctor import DoctorReport, conclude, examine

    checks = examine(run_root)
    report = DoctorReport(checks=checks, conclusion=conclude(checks))
    show(report, "lists:doctor_document", as_json=as_json)
