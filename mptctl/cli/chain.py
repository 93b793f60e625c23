"""`mptctl chain`: updates of updates, and which of their flips are new, lasting and healed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show
from mptctl.errors import CheckpointError
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
    from mptctl.cli.outputs import Outputs
    from mptctl.files.output_kinds import MARKDOWN
    from mptctl.studies.run_folders import runs_of_chain

    outputs = Outputs()
    outputs.file("--markdown", markdown, MARKDOWN)
    outputs.figure("--figure", figure)
    runs = runs_of_chain(folder.expanduser())
    if not runs:
        what = "holds no run" if folder.is_dir() else "no such folder"
        raise CheckpointError(f"{folder}: {what}; name the folder of a study, such as runs/chain")
    read = {path for run in runs for path in (*run.iterdir(), *run.parent.iterdir()) if path.is_file()}
    outputs.check(sorted(read), prints=as_json)
    # Here, because they take seconds to import, and that a run is not there is to be said at once.
    from mptctl.report.documents.chain import write_chain
    from mptctl.report.media.progress_bars import showing_progress
    from mptctl.studies.chain import report_chains

    with showing_progress(Session(device=device, data_root=data_root)) as session:
        report = report_chains(runs, session)
    for path in write_chain(report, markdown, figure):
        typer.echo(f"wrote {path}", err=True)
    show(report, "chain:chain_document", as_json=as_json)
