"""`mptctl history`: read the releases, draw and print them."""

from __future__ import annotations

import typer

from mptctl.cli.outputs import Outputs
from mptctl.cli.show import show
from mptctl.errors import DataError, UsageError
from mptctl.evaluation.evaluate_request import HistoryRequest
from mptctl.evaluation.gate.history import read_history


def show_history(asked: HistoryRequest) -> None:
    """Print the releases of a history file, and draw them where a figure is asked for.

    Raises:
        DataError: the file holds no release, or is damaged.
        UsageError: the figure cannot be written.
    """
    file, figure = asked.file, asked.out
    Outputs().add_figure("--out", figure).check([file])
    history = read_history(file)
    if not (history.releases or history.looks):
        raise DataError(f"{file}: holds no release; evaluate --append-history adds one")
    if figure is not None and not history.releases:
        raise UsageError(f"--out {figure}: draws NFR, and {file} holds only looks at labels of traffic")
    if figure is not None:
        from mptctl.report.figures.history import draw_history
        from mptctl.report.media.svg import save_figure

        save_figure(draw_history(history.releases), figure)
        typer.echo(f"wrote {figure}", err=True)
    show(history, "history:history_document", as_json=asked.as_json)
