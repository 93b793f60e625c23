"""`mptctl quickstart`: the whole story on embedded data."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.errors import Stopped, UsageError


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
    from functools import partial

    from rich.console import Console

    from mptctl.files import write_atomically
    from mptctl.inference.predict import image_reader
    from mptctl.report.documents.flips_page import render_html
    from mptctl.report.documents.study import watching
    from mptctl.report.media.progress_bars import plain_line
    from mptctl.report.media.provenance import Gathering
    from mptctl.studies.quickstart import PAGE_NAME
    from mptctl.studies.quickstart import quickstart as run

    page, console = run_root / PAGE_NAME, Console(stderr=True)
    _refuse_page(page, overwrite=overwrite)
    try:
        with watching(console) as on_update:
            done = run(
                run_root,
                seed=seed,
                overwrite=overwrite,
                on_update=on_update,
                log=partial(plain_line, console),
            )
    except Stopped as error:  # it has no --resume
        message = f"{run_root}: the quickstart was stopped; start it anew with --overwrite"
        raise Stopped(message, error.signum) from error
    pictures, sources = image_reader(done.split, part="test"), Gathering(done.found, sys.argv).finish()
    write_atomically(page, render_html(done.flips, pictures, provenance=sources).encode())
    result = done.result
    if as_json:
        typer.echo(result.model_dump_json())
        return
    from mptctl.report.documents.quickstart import print_quickstart

    print_quickstart(result, pictures, Console())


def _refuse_page(page: Path, *, overwrite: bool) -> None:
    """Refuse, before anything is trained, a page that must not be written over."""
    from mptctl.files.output_kinds import HTML

    if not os.path.lexists(page):
        return
    if not (page.is_file() and not page.is_symlink() and HTML.known(page)):
        raise UsageError(f"{page}: was not written by quickstart; move it away, or use another --run-root")
    if not overwrite:
        raise UsageError(f"{page}: already there; start anew with --overwrite, or use another --run-root")
