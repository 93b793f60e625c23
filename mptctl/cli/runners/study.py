"""The work of `mptctl study`: read a study, train its missing runs, print the table and write the page."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.report.media.progress_bars import print_plain_line, throttled_log
from mptctl.studies.study_file import Study, checked_seeds, load_study

if TYPE_CHECKING:
    from mptctl.studies.study import StudyRequest


def read_study_and_seeds(
    name: str, seeds: str | None, page: Path | None, *, as_json: bool
) -> tuple[Study, list[int]]:
    """Read the study and its seeds, and check the page's path, without torch, which takes seconds to import.

    Args:
        name: of a study, or the path of a YAML file.
        seeds: numbers with commas between; None: the study's own.
        page: the page that will be written; None: no page.
        as_json: JSON will be printed.

    Raises:
        UsageError: there is no such study, or it is not valid; seeds that are no numbers; a page that would
            destroy something.
    """
    outputs = Outputs()
    outputs.add_file("--report", page, PAGE)
    outputs.check([Path(name).expanduser()])
    study = load_study(name)
    return study, study.file.seeds if seeds is None else _parse_seeds(seeds)


def _parse_seeds(text: str) -> list[int]:
    """The seeds that a flag lists with commas between; UsageError where one is no number, or not allowed."""
    try:
        return checked_seeds([int(word) for word in text.split(",")])
    except ValueError as error:
        reason = str(error).removeprefix("seeds: ")
        advice = "write them as 1,2,3" if reason.startswith("invalid") else reason
        raise UsageError(f"--seeds {text}: {advice}") from error


def train_study(request: StudyRequest, page: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Train the missing runs of a study, write its page and print its table; or print what would be done.

    Args:
        request: the study.
        page: the file that the page is written to; None: no page.
        dry_run: only print what would be done.
        as_json: print JSON.

    Raises:
        MptctlError: a run failed, which is raised last; or as `mptctl.studies.study.run_study`.
    """
    from mptctl.report.documents.study import save_study_page, watch_study
    from mptctl.studies.study import refuse_if_failed, run_study
    from mptctl.studies.study_dry_run import dry_run as plan_study_on_paper

    if dry_run:
        show(plan_study_on_paper(request), "study:plan_document", as_json=as_json)
        if not as_json:
            typer.echo("nothing was written")
        return
    console = Console(stderr=True)
    print_line = partial(print_plain_line, console)
    with watch_study(console) as on_update:
        report = run_study(request, on_update, print_line, throttled_log(print_line))
    if page is not None:
        save_study_page(report, page, sys.argv)
        typer.echo(f"wrote {page}", err=True)
    show(report, "study:study_document", as_json=as_json)
    refuse_if_failed(report)
