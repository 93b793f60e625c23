"""`mptctl bench evaluate`: how fast two predictions files are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.bench_table import conclude, print_table
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.bench.evaluate import EvaluateBench


@prints({"--json": "mptctl.bench.evaluate:EvaluateBench"})
def evaluate(
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1000, max=10**9, help="Rows of each generated file.")
    ] = 10_000_000,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Runs of each row; rows take turns.")
    ] = 3,
    memory_limit: Annotated[
        str, typer.Option("--memory-limit", metavar="SIZE", help="Memory for tables and joins.")
    ] = "2GB",
    as_json: opt.Json = False,
) -> None:
    """How fast predictions files are compared: evaluate, and DuckDB's bare join of the same files.

    The files are written to the temporary folder (TMPDIR) and removed; 10 million rows take 0.2 GB, and as much again
    may be spilled.

    Examples:

        mptctl bench evaluate --rows 1000000

        mptctl bench evaluate --rows 100000000 --repeats 1 --json
    """
    from mptctl.bench.evaluate import bench_evaluate
    from mptctl.evaluation.reading.workspace import parse_size

    found = bench_evaluate(
        rows,
        repeats=repeats,
        memory_limit=parse_size(memory_limit, "--memory-limit"),
        say=lambda line: typer.echo(line, err=True),
    )
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        _print_evaluate(found)


def _print_evaluate(found: EvaluateBench) -> None:
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores; {found.rows[0].rows:,} rows a file, "
        f"{found.memory_limit_gb:g} GB for tables and joins"
    )
    print_table(
        ("way", "seconds", "fastest", "slowest", "peak GB"),
        [
            (
                row.name,
                *(f"{s:.2f}" for s in (row.seconds, min(row.runs), max(row.runs))),
                f"{row.peak_gb:.2f}",
            )
            for row in found.rows
        ],
        words=("way",),
        spare=("fastest", "slowest"),
    )
    from mptctl.bench.conclusions import evaluate_sentence

    conclude(evaluate_sentence(found))
