"""`mptctl compare`: the table of updates over seeds, with what differs by noise alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show
from mptctl.names import Session


def _file(flag: str, what: str, suffix: str = "") -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar=f"FILE{suffix}", help=f"Write {what}.", rich_help_panel="More output"
    )
    return option


@prints({"--json": "mptctl.studies.comparison:Comparison"})
def compare(
    studies_or_runs: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY_OR_RUNS...",
            help="A study's name or folder, a run root, or runs by name or folder.",
            show_default=False,
        ),
    ],
    old: Annotated[
        str | None,
        typer.Option(
            "--old",
            metavar="RUN",
            help="Old model of all updates: a folder, or a name beside each run. (default: what each run "
            "records)",
        ),
    ] = None,
    by: Annotated[
        Literal["seed", "split", "old"],
        typer.Option(
            "--by", help="seed: one table over seeds; split: a table for each split; old: for each old model."
        ),
    ] = "seed",
    part: Annotated[
        Literal["test", "val"],
        typer.Option("--part", help="Part whose samples are counted; val for choosing a method."),
    ] = "test",
    equal_error: Annotated[
        str | None,
        typer.Option(
            "--equal-error",
            metavar="ROW",
            help="Shift each update, by the validation part, to the validation error of ROW.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="ROW", help="Show the difference of each row to ROW, with intervals."
        ),
    ] = None,
    as_json: opt.Json = False,
    csv: Annotated[Path | None, _file("--csv", "one line a row as CSV, in full precision")] = None,
    latex: Annotated[Path | None, _file("--latex", "a LaTeX table for booktabs")] = None,
    markdown: Annotated[Path | None, _file("--markdown", "a Markdown table")] = None,
    report: Annotated[Path | None, _file("--report", "one HTML page", ".html")] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    device: opt.ModelDevice = "auto",
) -> None:
    """Compare updates over seeds: flips, errors, cost.

    Prints one row for each method, and which differences are more than noise of samples and retraining.
    Predictions are kept beside each checkpoint, so the same table is printed again at once, also when only
    predictions, recipes and metrics are left.

    Examples:

        mptctl compare runs/cifar100-r18 --latex table.tex --report table.html

        mptctl compare no-treatment mpt-kl mpt-lm --json

        mptctl compare runs/cifar100-r18 --equal-error mpt-kl --against mpt-kl
    """
    from mptctl.studies.run_folders import named_folder

    folders = [named_folder(name, run_root) for name in studies_or_runs]
    # Here, because they take a second to import, and that a study is not there is to be said at once.
    from mptctl.cli.outputs import Outputs
    from mptctl.files.output_kinds import HTML, LATEX, MARKDOWN, OutputKind, has_header
    from mptctl.report.documents.comparison_files import FIRST_COLUMNS, write_comparison
    from mptctl.report.media.progress_bars import showing_progress
    from mptctl.studies.compare import compare_runs

    outputs = Outputs()
    outputs.file(
        "--csv", csv, OutputKind("table of a comparison", lambda path: has_header(path, FIRST_COLUMNS))
    )
    outputs.file("--latex", latex, LATEX)
    outputs.file("--markdown", markdown, MARKDOWN)
    outputs.file("--report", report, HTML)
    outputs.check([file for folder in folders for file in _inputs(folder)], prints=as_json)
    with showing_progress(Session(run_root, device, data_root=data_root)) as session:
        comparison = compare_runs(
            folders,
            session,
            old=None if old is None else Path(old).expanduser(),
            by=by,
            part=part,
            equal_error=equal_error,
            against=against,
        )
    for path in write_comparison(
        comparison, csv=csv, latex=latex, markdown=markdown, page=report, argv=sys.argv
    ):
        typer.echo(f"wrote {path}", err=True)
    show(comparison, "comparison:comparison_document", as_json=as_json)


def _inputs(folder: Path) -> list[Path]:
    """Files that may be read for the runs in a folder."""
    from mptctl.studies.run_folders import runs_below

    files = []
    for run in runs_below(folder):
        files += [path for path in run.iterdir() if path.is_file()]
        files += [path for path in run.parent.iterdir() if path.is_file()]
    return files
