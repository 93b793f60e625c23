"""`mptctl history`: the releases that `evaluate --append-history` wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.errors import DataError


@prints({"--json": "mptctl.evaluation.gate.history:History"})
def history(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="What evaluate --append-history wrote.")],
    as_json: opt.Json = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Draw NFR with its intervals over releases, a .png or .svg file."
        ),
    ] = None,
) -> None:
    """Show negative flips over past releases.

    Reads the file that `mptctl evaluate --append-history` writes: a line of blocks, a table, and a figure.

    Examples:

        mptctl evaluate old.npz new.npz --append-history releases.jsonl

        mptctl history releases.jsonl --out releases.png
    """
    from mptctl.cli.outputs import Outputs
    from mptctl.evaluation.gate.history import History, read_history

    outputs = Outputs()
    outputs.figure("--out", out)
    outputs.check([file], prints=as_json)
    releases = read_history(file)
    if not releases:
        raise DataError(f"{file}: holds no release; evaluate --append-history adds one")
    if out is not None:
        from mptctl.report.figures.history import draw_history
        from mptctl.report.media.svg import save_figure

        save_figure(draw_history(releases), out)
        typer.echo(f"wrote {out}", err=True)
    if as_json:
        typer.echo(History(releases=releases).model_dump_json())
        return
    from rich.console import Console

    from mptctl.report.documents.history import print_history

    print_history(releases, Console())
