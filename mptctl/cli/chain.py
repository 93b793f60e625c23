"""`mptctl chain`: follow updates of updates, and count their new, lasting and healed flips."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import Session


@prints({"--json": "mptctl.studies.chain:ChainReport"})
def chain(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Of a study of a chain, or any that holds its runs."),
    ],
    as_json: opt.Json = False,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown", metavar="FILE", help="Write a Markdown table.", rich_help_panel="More output"
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            metavar="FILE",
            help="Draw the flips against the first, a .png or .svg file.",
            rich_help_panel="More output",
        ),
    ] = None,
    data_root: opt.MovedData = None,
    device: opt.ModelDevice = "auto",
) -> None:
    """Follow updates of updates, sample by sample.

    Each update is compared with the model that it replaced and with the first model. The table is made from
    the predictions kept beside the checkpoints; it can be made again where only these, the recipes and the
    metrics are left.

    Examples:

        mptctl study chain --data-root ~/data

        mptctl chain runs/chain --figure chain.png --markdown chain.md
    """
    from mptctl.cli.runners.chain import show_chain

    session = Session(device=device, data_root=data_root)
    show_chain(folder, session, markdown=markdown, figure=figure, as_json=as_json)
