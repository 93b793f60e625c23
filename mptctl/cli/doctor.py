"""`mptctl doctor`: check what is installed and works on this machine."""

from __future__ import annotations

from mptctl.cli.show import show
from mptctl.files.request import RootRequest
from mptctl.machine.doctor import DoctorReport, examine
from mptctl.report.documents.lists import doctor_document


def examine_machine(asked: RootRequest) -> None:
    """Check this machine, and print what was found and what to do."""
    show(DoctorReport(checks=examine(asked.run_root)), doctor_document, as_json=asked.as_json)
