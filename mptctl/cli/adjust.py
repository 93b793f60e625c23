"""`mptctl adjust`; a training with a budget of flips ends with the same adjustment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.release.requests import AdjustSettings
from mptctl.report.documents.adjust import describe_adjustment
from mptctl.report.media.progress_bars import showing_progress

if TYPE_CHECKING:
    from mptctl.release.adjust import Adjusted

FIGURE = "adjust.svg"


def adjust_and_show(asked: AdjustSettings) -> None:
    """Adjust a run, draw the shifts it was chosen from, and print the chosen one.

    Raises:
        UsageError: a figure without a budget, or one that would destroy what is read.
        MptctlError: as `mptctl.release.adjust.adjust`.
    """
    budget = asked.budget
    outputs = Outputs().add_figure("--figure", asked.figure)
    if asked.figure is not None and budget is None:
        raise UsageError("--figure: shows flips against error; give --max-nfr or --max-er-increase, too")
    outputs.check(files_read_for(asked.models.values(), asked.run_root))
    # A missing model is reported before torch is imported, which takes seconds.
    for run in asked.models.values():
        find_checkpoint(run, asked.run_root)
    adjusted = adjust_and_draw(asked, asked.session)
    lines = [*describe_adjustment(adjusted.report), adjusted.report.best]
    show(adjusted.report, lambda _: typer.echo("\n".join(lines)), as_json=asked.as_json)


def adjust_and_draw(asked: AdjustSettings, session: Session) -> Adjusted:
    """Adjust a run, and print its warnings and the path of the figure; see `adjust_and_show`.

    Where only a temperature is fitted there is no figure.
    """
    from mptctl.release.adjust import adjust

    with showing_progress(session) as session:
        adjusted = adjust(asked, session)
    if adjusted.choice is not None:
        from mptctl.report.figures.adjust import draw_adjustment
        from mptctl.report.media.svg import save_figure

        path = asked.figure or adjusted.folder.path / FIGURE
        save_figure(draw_adjustment(adjusted.report, adjusted.choice), path)
        typer.echo(f"wrote {path}", err=True)
    warn(adjusted.report.warnings)
    return adjusted
