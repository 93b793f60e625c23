"""The work of `mptctl study`: find it, train what is missing, print the table and write the page."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from mptctl.cli.outputs import Outputs
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.files.output_kinds import HTML
from mptctl.report.media.progress_bars import plain_line, throttled_log
from mptctl.studies.study_file import Study, checked_seeds, load_study

if TYPE_CHECKING:
    from mptctl.studies.study import StudyRequest


def find_study(name: str, seeds: str | None, page: Path | None, *, as_json: bool) -> tuple[Study, list[int]]:
    """The study of a name or a file, and its seeds; checked without torch, which takes seconds to import.

    Args:
        name: of a study, or a YAML file.
        seeds: numbers with commas between; None: the study's own.
        page: the page that will be written; None: none.
        as_json: JSON will be printed.

    Raises:
        UsageError: no such study, seeds that are no numbers, or a page that would destroy something.
    """
    outputs = Outputs()
    outputs.add_file("--report", page, HTML)
    outputs.check([Path(name).expanduser()], prints=as_json)
    study = load_study(name)
    return study, study.file.seeds if seeds is None else _seeds(seeds)


def _seeds(text: str) -> list[int]:
    try:
        return checked_seeds([int(word) for word in text.split(",")])
    except ValueError as error:
        reason = str(error).removeprefix("seeds: ")
        said = "write them as 1,2,3" if reason.startswith("invalid") else reason
        raise UsageError(f"--seeds {text}: {said}") from error


def train_study(request: StudyRequest, page: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Train what is missing of a study and print its table, or print what would be done.

    Args:
        request: the study.
        page: the file that the page is written to; None: none.
        dry_run: write nothing.
        as_json: print JSON.

    Raises:
        MptctlError: a run failed; as `mptctl.studies.study.run_study`.
    """
    from mptctl.report.documents.study import save_study_page, watching
    from mptctl.studies.study import refuse_if_failed, run_study
    from mptctl.studies.study_dry_run import dry_run as plan_only

    if dry_run:
        show(plan_only(request), "study:plan_document", as_json=as_json)
        if not as_json:
            typer.echo("nothing was written")
        return
    console = Console(stderr=True)
    say = partial(plain_line, console)
    with watching(console) as on_update:
        report = run_study(request, on_update, say, throttled_log(say))
    if page is not None:
        save_study_page(report, page, sys.argv)
        typer.echo(f"wrote {page}", err=True)
    show(report, "study:study_document", as_json=as_json)
    refuse_if_failed(report)
