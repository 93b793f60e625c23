"""`mptctl compare`: the table of updates over seeds, which marks differences that are only noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import Session


def _output_option(flag: str, content: str, suffix: str = "") -> typer.models.OptionInfo:
    """An option that names a file to write; help says its content and the ending of its name."""
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar=f"FILE{suffix}", help=f"Write {content}.", rich_help_panel="More output"
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
    part: Annotated[
        Literal["test", "val"],
        typer.Option("--part", help="Part whose samples are counted; val for choosing a method."),
    ] = "test",
    equal_error: Annotated[
        str | None,
        typer.Option(
            "--equal-error",
            metavar="ROW",
            help="Shift updates, by the validation part, to the validation error of ROW. (default: the plain "
            "update alone, to the MPT row of the lowest validation NFR)",
        ),
    ] = None,
    shift: Annotated[
        Literal["all", "plain"],
        typer.Option(
            "--shift", help="With --equal-error: all updates, or the plain one alone, in a row of its own."
        ),
    ] = "all",
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="ROW", help="Show the difference of each row to ROW, with intervals."
        ),
    ] = None,
    as_json: opt.Json = False,
    csv: Annotated[Path | None, _output_option("--csv", "one line a row as CSV, in full precision")] = None,
    latex: Annotated[Path | None, _output_option("--latex", "a LaTeX table for booktabs")] = None,
    markdown: Annotated[Path | None, _output_option("--markdown", "a Markdown table")] = None,
    report: Annotated[Path | None, _output_option("--report", "one HTML page", ".html")] = None,
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
    from mptctl.cli.runners.compare import ComparedFiles, compare_and_show

    compare_and_show(
        studies_or_runs,
        Session(run_root, device, data_root=data_root),
        ComparedFiles(csv, latex, markdown, report),
        old=None if old is None else Path(old).expanduser(),
        part=part,
        equal_error=equal_error,
        shift=shift,
        against=against,
        as_json=as_json,
    )
