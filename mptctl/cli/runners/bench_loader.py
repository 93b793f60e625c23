"""The work of `mptctl bench loader`: measure each loader, then print a table or JSON."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from mptctl.bench.loader import bench_loader
from mptctl.bench.runners import ROWS
from mptctl.bench.sources import SOURCES
from mptctl.cli.runners.bench_tables import parse_names, print_loader
from mptctl.cli.show import show
from mptctl.machine.device import choose_device
from mptctl.recipe import load_recipe


def measure_loader(
    data_root: Path | None,
    source: str,
    recipe: str,
    overrides: list[str] | None,
    rows: str | None,
    repeats: int,
    seconds: float,
    device: str | None,
    *,
    tune: bool,
    as_json: bool,
) -> None:
    """Measure how fast pictures come and print the result; parameters are the flags."""
    settings = load_recipe(recipe, overrides or [])
    result = bench_loader(
        settings,
        data_root=data_root,
        sources=parse_names("--source", source, SOURCES),
        rows=parse_names("--rows", rows, ROWS),
        repeats=repeats,
        seconds=seconds,
        device=choose_device(device or settings.runtime.device),
        tune=tune,
        say=partial(typer.echo, err=True),
    )
    show(result, print_loader, as_json=as_json)
