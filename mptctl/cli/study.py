"""`mptctl study`: train what is missing of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show
from mptctl.errors import UsageError

if TYPE_CHECKING:
    from mptctl.studies.study import StudyRequest


@prints(
    {
        "--json": "mptctl.studies.study_report:StudyReport",
        "--dry-run --json": "mptctl.studies.study_dry_run:StudyDryRun",
    }
)
def study(
    name: Annotated[
        str, typer.Argument(metavar="STUDY", help="A study by name, or a YAML file of one's own.")
    ],
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="LIST", help="Seeds, such as 1,2,3. (default: the study's)"),
    ] = None,
    run_root: Annotated[
        Path | None,
        typer.Option("--run-root", metavar="DIR", help="Runs lie in DIR/SEED/RUN. (default: runs/STUDY)"),
    ] = None,
    data_root: opt.DataRoot = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help="Copy recipe, metrics and predictions of each finished run to DIR/STUDY/SEED/RUN.",
        ),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel",
            metavar="N",
            min=1,
            help="Most runs at once; they share the cores. (default: one a GPU, or one a core where there is "
            "none)",
        ),
    ] = None,
    lockstep: opt.Lockstep = 1,
    ray_address: opt.RayAddress = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write one HTML page.")
    ] = None,
    dry_run: opt.DryRun = False,
    as_json: opt.Json = False,
) -> None:
    """Train what a table of methods and seeds still lacks.

    Finished runs are kept and interrupted ones continued, so the same command goes on after any
    interruption. A run that fails is named, runs that do not depend on it go on, and the exit code is 1.
    Prints the table at the end.

    Examples:

        mptctl study demo --seeds 1,2

        mptctl study cifar100-r18 --data-root ~/data --dry-run

        mptctl study cifar100-r18 --data-root ~/data --results results
    """
    from mptctl.cli.outputs import Outputs
    from mptctl.files.output_kinds import HTML
    from mptctl.studies.study_file import load_study

    outputs = Outputs()
    outputs.file("--report", report, HTML)
    outputs.check([Path(name).expanduser()], prints=as_json)
    found = load_study(name)
    chosen = found.file.seeds if seeds is None else _seeds(seeds)
    # Here, because it takes seconds to import.
    from mptctl.studies.study import StudyRequest

    request = StudyRequest(
        study=found,
        seeds=tuple(chosen),
        run_root=Path("runs") / found.name if run_root is None else run_root,
        data_root=data_root,
        ray_address=ray_address,
        parallel=parallel,
        lockstep=lockstep,
        results=results,
    )
    if dry_run:
        _say_what_would_be_done(request, as_json)
    else:
        _train(request, as_json, report)


def _seeds(text: str) -> list[int]:
    from mptctl.studies.study_file import checked_seeds

    try:
        return checked_seeds([int(word) for word in text.split(",")])
    except ValueError as error:
        reason = str(error).removeprefix("seeds: ")
        said = "write them as 1,2,3" if reason.startswith("invalid") else reason
        raise UsageError(f"--seeds {text}: {said}") from error


def _train(request: StudyRequest, as_json: bool, page: Path | None) -> None:
    from functools import partial

    from rich.console import Console

    from mptctl.report.documents.study import watching
    from mptctl.report.media.progress_bars import plain_line, throttled_log
    from mptctl.studies.study import refuse_if_failed, run_study

    console = Console(stderr=True)
    say = partial(plain_line, console)
    with watching(console) as on_update:
        report = run_study(request, on_update, say, throttled_log(say))
    if page is not None:
        from mptctl.report.documents.study import save_study_page

        save_study_page(report, page, sys.argv)
        typer.echo(f"wrote {page}", err=True)
    show(report, "study:study_document", as_json=as_json)
    refuse_if_failed(report)


def _say_what_would_be_done(request: StudyRequest, as_json: bool) -> None:
    from mptctl.studies.study_dry_run import dry_run

    plan = dry_run(request)
    show(plan, "study:plan_document", as_json=as_json)
    if not as_json:
        typer.echo("nothing was written")
