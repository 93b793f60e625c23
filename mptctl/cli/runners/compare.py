"""The work of `mptctl compare`: compare the runs, write the files that flags name, print the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.names import Part, Session
from mptctl.report.documents.comparison_files import write_comparison
from mptctl.report.media.progress_bars import showing_progress
from mptctl.studies.compare import compare_runs
from mptctl.studies.post_hoc_bias import Shift
from mptctl.studies.run_folders import named_folder, runs_below


@dataclass(frozen=True)
class ComparedFiles:
    """The files that a comparison is written to; None: not written."""

    csv: Path | None
    latex: Path | None
    markdown: Path | None
    page: Path | None


def compare_and_show(
    names: Sequence[str],
    session: Session,
    files: ComparedFiles,
    *,
    old: Path | None,
    part: Part,
    equal_error: str | None,
    shift: Shift,
    against: str | None,
    as_json: bool,
) -> None:
    """Compare runs, write the files and print the table.

    Args:
        names: studies, run roots or runs.
        session: where runs are and where models compute.
        files: to write.
        old, part, equal_error, shift, against: as for `mptctl.studies.compare.compare_runs`.
        as_json: print JSON.

    Raises:
        UsageError: a file cannot be written, or would destroy what is read.
        MptctlError: as `compare_runs`.
    """
    folders = [named_folder(name, session.run_root) for name in names]
    outputs = Outputs()
    outputs.add_file("--csv", files.csv)
    outputs.add_file("--latex", files.latex)
    outputs.add_file("--markdown", files.markdown)
    outputs.add_file("--report", files.page, PAGE)
    outputs.check([file for folder in folders for file in _files_of_runs(folder)])
    with showing_progress(session) as session:
        comparison = compare_runs(
            folders,
            session,
            old=old,
            part=part,
            equal_error=equal_error,
            shift=shift,
            against=against,
        )
    for path in write_comparison(comparison, **vars(files), argv=sys.argv):
        typer.echo(f"wrote {path}", err=True)
    show(comparison, "comparison:comparison_document", as_json=as_json)


def _files_of_runs(folder: Path) -> list[Path]:
    """The files in the run folders below a folder, and the files beside each of them."""
    files = []
    for run in runs_below(folder):
        files += [path for path in run.iterdir() if path.is_file()]
        files += [path for path in run.parent.iterdir() if path.is_file()]
    return files
