"""`mptctl compare`: compare the runs, write the files that flags name, print the table."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.report.documents.choice import choice_document
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.documents.comparison_files import write_comparison
from mptctl.report.media.progress_bars import showing_progress
from mptctl.studies.compare import compare_runs
from mptctl.studies.requests import CompareRequest
from mptctl.studies.run_folders import named_folder, runs_below


def compare_and_show(asked: CompareRequest) -> None:
    """Compare runs, write the files that are asked for and print the table.

    Raises:
        UsageError: a file cannot be written, or would destroy what is read.
        MptctlError: as `compare_runs`.
    """
    folders = [named_folder(name, asked.run_root) for name in asked.studies_or_runs]
    old = None if asked.old is None else Path(asked.old).expanduser()
    if asked.choose:
        _choose_and_show(asked, folders, old)
        return
    outputs = Outputs()
    outputs.add_file("--csv", asked.csv)
    outputs.add_file("--latex", asked.latex)
    outputs.add_file("--markdown", asked.markdown)
    outputs.add_file("--report", asked.report, PAGE)
    outputs.check([file for folder in folders for file in _files_of_runs(folder)])
    with showing_progress(asked.session) as session:
        comparison = compare_runs(
            folders,
            session,
            old=old,
            part=asked.part,
            equal_error=asked.equal_error,
            against=asked.against,
        )
    written = write_comparison(
        comparison,
        csv=asked.csv,
        latex=asked.latex,
        markdown=asked.markdown,
        page=asked.report,
        argv=sys.argv,
    )
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    show(comparison, comparison_document, as_json=asked.as_json)


def _choose_and_show(asked: CompareRequest, folders: list[Path], old: Path | None) -> None:
    """Choose among the updates, and print what was chosen.

    Raises:
        UsageError: the choice would read the test part, or a flag has no meaning beside --choose.
        MptctlError: as `choose_update`.
    """
    if asked.part != "val":
        raise UsageError(
            "--choose: never reads the test part, which is to judge what was chosen; add --part val"
        )
    others = ("equal_error", "against", "csv", "latex", "markdown", "report")
    given = [f"--{name.replace('_', '-')}" for name in others if name in asked.model_fields_set]
    if given:
        raise UsageError(f"--choose: {given[0]} has no meaning beside it; leave one of them out")
    from mptctl.studies.choose import choose_update

    with showing_progress(asked.session) as session:
        choice = choose_update(folders, session, old=old)
    show(choice, choice_document, as_json=asked.as_json)


def _files_of_runs(folder: Path) -> list[Path]:
    """The files in the run folders below a folder, and the files beside each of them."""
    files = []
    for run in runs_below(folder):
        files += [path for path in run.iterdir() if path.is_file()]
        files += [path for path in run.parent.iterdir() if path.is_file()]
    return files
