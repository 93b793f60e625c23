"""`mptctl study`: read a study, train its missing runs, print the table and write the page."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.report.media.progress_bars import print_plain_line, throttled_log
from mptctl.studies.requests import StudySettings
from mptctl.studies.study_file import checked_seeds, load_study


def train_study(asked: StudySettings) -> None:
    """Train the missing runs of a study, write its page and print its table; or print what would be done.

    Raises:
        UsageError: there is no such study, or it is not valid; seeds that are no numbers; a page that would
            destroy something.
        MptctlError: a run failed, which is raised last; or as `mptctl.studies.study.run_study`.
    """
    Outputs().add_file("--report", asked.report, PAGE).check([Path(asked.name).expanduser()])
    study = load_study(asked.name)
    seeds = study.file.seeds if asked.seeds is None else _parse_seeds(asked.seeds)
    # Imported after the checks, because torch takes seconds.
    from mptctl.report.documents.study import plan_document, save_study_page, study_document, watch_study
    from mptctl.studies.study import StudyRequest, refuse_if_failed, run_study
    from mptctl.studies.study_cost import within_cost
    from mptctl.studies.study_dry_run import dry_run

    cost = study.file.cost if asked.cost is None else asked.cost
    if cost is not None:
        study, costs = within_cost(study, cost)
        typer.echo(f"{study.name}: {costs}", err=True)
    request = StudyRequest(
        study=study,
        seeds=tuple(seeds),
        run_root=asked.run_root or Path("runs") / study.name,
        data_root=asked.data_root,
        ray_address=asked.ray_address,
        parallel=asked.parallel,
    )
    if asked.dry_run:
        show(dry_run(request), plan_document, as_json=asked.as_json)
        if not asked.as_json:
            typer.echo("nothing was written")
        return
    console = Console(stderr=True)
    print_line = partial(print_plain_line, console)
    with watch_study(console) as on_update:
        report = run_study(request, on_update, print_line, throttled_log(print_line))
    if asked.report is not None:
        save_study_page(report, asked.report, sys.argv)
        typer.echo(f"wrote {asked.report}", err=True)
    show(report, study_document, as_json=asked.as_json)
    refuse_if_failed(report.study, report.runs)


def _parse_seeds(text: str) -> list[int]:
    """The seeds that a flag lists with commas between; UsageError where one is no number, or not allowed."""
    try:
        return checked_seeds([int(word) for word in text.split(",")])
    except ValueError as error:
        reason = str(error).removeprefix("seeds: ")
        advice = "write them as 1,2,3" if reason.startswith("invalid") else reason
        raise UsageError(f"--seeds {text}: {advice}") from error
