"""`mptctl study`: train the runs that a table of methods and seeds still lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


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

        mptctl study cifar100-r18 --data-root ~/data --report cifar100.html
    """
    from mptctl.cli.runners.study import read_study_and_seeds, train_study

    content, chosen_seeds = read_study_and_seeds(name, seeds, report, as_json=as_json)
    # After the checks, because it takes seconds to import.
    from mptctl.studies.study import StudyRequest

    request = StudyRequest(
        study=content,
        seeds=tuple(chosen_seeds),
        run_root=Path("runs") / content.name if run_root is None else run_root,
        data_root=data_root,
        ray_address=ray_address,
        parallel=parallel,
    )
    train_study(request, report, dry_run=dry_run, as_json=as_json)
