"""`mptctl gate init`: write a gate file to begin with, from a comparison of two models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.command import command_group
from mptctl.cli.evaluate_flags import ComparedFlags
from mptctl.cli.flag_records import with_flags
from mptctl.names import Session

app = command_group("Write a gate file to begin with (gate init).")


@app.command("init")
@with_flags
def init(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The model in production, as evaluate takes it.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="A replacement that may be released.")],
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where it is written; what is there is kept.")
    ] = Path("gate.yaml"),
    *,
    compared: ComparedFlags,
    device: opt.ModelDevice = "auto",
) -> None:
    """Write a commented gate file whose limits this comparison just keeps to.

    Examples:

        mptctl gate init old mpt-kl --by class
    """
    from mptctl.cli.runners.gate_init import write_gate_file

    write_gate_file(old, new, compared, out, Session(run_root, device, data_root=data_root))
