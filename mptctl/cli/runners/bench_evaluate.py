"""The work of `mptctl bench evaluate`, which needs no torch: measure, then print a table or JSON."""

from __future__ import annotations

from functools import partial

import typer

from mptctl.bench.evaluate import bench_evaluate
from mptctl.cli.runners.bench_tables import print_evaluate
from mptctl.cli.show import show
from mptctl.evaluation.reading.workspace import parse_size


def measure_evaluate(rows: int, repeats: int, memory_limit: str, *, as_json: bool) -> None:
    """Measure how fast two generated files are compared, and print the result; parameters are the flags."""
    result = bench_evaluate(
        rows,
        repeats=repeats,
        memory_limit=parse_size(memory_limit, "--memory-limit"),
        say=partial(typer.echo, err=True),
    )
    show(result, print_evaluate, as_json=as_json)
