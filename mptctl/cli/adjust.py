"""`mptctl adjust`; a training with a budget of flips ends with the same adjustment."""

from __future__ import annotations

import typer

from mptctl.cli.budget import budget_of_flags
from mptctl.cli.messages import warn
from mptctl.cli.show import show
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.release.adjust_report import AdjustReport, AdjustRequest
from mptctl.release.requests import AdjustSettings
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.media.progress_bars import showing_progress


def adjust_and_show(asked: AdjustSettings) -> None:
    """Adjust a run, and print the shift that was chosen; errors as `mptctl.release.adjust.adjust`."""
    budget = budget_of_flags(asked.max_nfr, asked.max_er_increase, asked.confidence)
    request = AdjustRequest(asked.new, asked.old, budget, asked.temperature, asked.name, asked.overwrite)
    # A missing model is reported before torch is imported, which takes seconds.
    for run in request.names.values():
        find_checkpoint(run, asked.run_root)
    report = adjust_and_warn(request, asked.session)
    lines = [*describe_adjustment(report), report.best]
    show(report, lambda _: typer.echo("\n".join(lines)), as_json=asked.as_json)


def adjust_and_warn(request: AdjustRequest, session: Session) -> AdjustReport:
    """Adjust a run, and print its warnings; see `adjust_and_show`."""
    from mptctl.release.adjust import adjust

    with showing_progress(session) as session:
        report = adjust(request, session)
    warn(report.warnings)
    return report
