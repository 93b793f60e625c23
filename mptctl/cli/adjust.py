"""`mptctl adjust`; a training with a budget of flips ends with the same adjustment."""

from __future__ import annotations

from mptctl.cli.messages import warn
from mptctl.cli.show import show
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.release.adjust_report import AdjustReport
from mptctl.release.requests import AdjustSettings
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.media.progress_bars import showing_progress


def adjust_and_show(asked: AdjustSettings) -> None:
    """Adjust a run, and print the shift that was chosen; errors as `mptctl.release.adjust.adjust`."""
    # A missing model is reported before torch is imported, which takes seconds.
    for run in asked.models.values():
        find_checkpoint(run, asked.run_root)
    report = adjust_and_warn(asked, asked.session)
    show(report, lambda report: "\n".join([*describe_adjustment(report), report.best]), as_json=asked.as_json)


def adjust_and_warn(asked: AdjustSettings, session: Session) -> AdjustReport:
    """Adjust a run, and print its warnings; see `adjust_and_show`."""
    from mptctl.release.adjust import adjust

    with showing_progress(session) as session:
        report = adjust(asked, session)
    warn(report.warnings)
    return report
