"""`mptctl history`: show the releases in a file that `evaluate --append-history` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


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
    from mptctl.cli.runners.history import show_history

    show_history(file, out, as_json=as_json)
