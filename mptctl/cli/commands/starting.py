"""The commands of the panel "Start"."""

from __future__ import annotations

from mptctl.cli.jobs import job


@job("studies.requests:QuickstartRequest", "quickstart:show_quickstart")
def quickstart() -> None:
    """Show the whole story in two minutes, on embedded pictures.

    Makes a split of drawn characters, trains the old model, the reference, a plain update and an MPT
    update, and prints what each update breaks. Needs no data and no GPU.

    Examples:

        mptctl quickstart

        mptctl quickstart --run-root /tmp/demo --json
    """


@job("files.request:RootRequest", "doctor:examine_machine")
def doctor() -> None:
    """List installed packages and usable devices, with remedies.

    Examples:

        mptctl doctor

        mptctl doctor --json
    """
