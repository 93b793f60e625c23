"""`mptctl quickstart`: train and compare four models on embedded pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


@prints({"--json": "mptctl.studies.quickstart:QuickstartResult"})
def quickstart(
    run_root: opt.RunRoot = Path("runs"),
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of the split and of all runs.")
    ] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Throw away what an earlier quickstart left there.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Show the whole story in two minutes, on embedded pictures.

    Makes a split of drawn characters, trains the old model, the reference, a plain update and an MPT
    update, and prints what each update breaks. Needs no data and no GPU.

    Examples:

        mptctl quickstart

        mptctl quickstart --run-root /tmp/demo --json
    """
    from mptctl.cli.runners.quickstart import show_quickstart

    show_quickstart(run_root, seed, overwrite=overwrite, as_json=as_json)
