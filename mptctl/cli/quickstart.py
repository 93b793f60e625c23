"""`mptctl quickstart`: the whole story on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt


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
    """Train and compare two updates of a small character classifier: one plain, one careful.

    Needs no data and no GPU, and takes a few minutes on two cores.

    Examples:

        mptctl quickstart

        mptctl quickstart --run-root /tmp/demo --json
    """
    from mptctl.quickstart import quickstart as run
    from mptctl.report.progress import observer

    result = run(run_root, seed=seed, overwrite=overwrite, observer=observer)
    if as_json:
        typer.echo(result.model_dump_json())
        return
    from rich.console import Console

    from mptctl.report.quickstart import print_quickstart

    print_quickstart(result.rows, result.meaning, result.report, Console())
