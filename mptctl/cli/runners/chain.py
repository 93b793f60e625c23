"""The work of `mptctl chain`: follow the updates of updates, write table and figure, print the table."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli.outputs import Outputs
from mptctl.cli.show import show
from mptctl.errors import CheckpointError
from mptctl.names import Session
from mptctl.report.documents.chain import write_chain
from mptctl.report.media.progress_bars import showing_progress
from mptctl.studies.chain import report_chains
from mptctl.studies.run_folders import runs_of_chain


def show_chain(
    folder: Path, session: Session, *, markdown: Path | None, figure: Path | None, as_json: bool
) -> None:
    """Print the flips of a chain of updates, and write them as Markdown or a figure.

    Args:
        folder: of the chain's runs.
        session: where models compute and pictures are.
        markdown, figure: files to write; None: not written.
        as_json: print JSON.

    Raises:
        CheckpointError: the folder holds no run.
        UsageError: a file cannot be written, or would destroy what is read.
    """
    outputs = Outputs()
    outputs.add_file("--markdown", markdown)
    outputs.add_figure("--figure", figure)
    runs = runs_of_chain(folder.expanduser())
    if not runs:
        problem = "holds no run" if folder.is_dir() else "no such folder"
        raise CheckpointError(f"{folder}: {problem}; name the folder of a study, such as runs/chain")
    read = {path for run in runs for path in (*run.iterdir(), *run.parent.iterdir()) if path.is_file()}
    outputs.check(sorted(read))
    with showing_progress(session) as session:
        report = report_chains(runs, session)
    for path in write_chain(report, markdown, figure):
        typer.echo(f"wrote {path}", err=True)
    show(report, "chain:chain_document", as_json=as_json)
