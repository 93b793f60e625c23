"""The work of `mptctl bench loader`, `kernel` and `step`: measure, then print a table or JSON."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, get_args

import typer

from mptctl.bench.kernel import bench_kernel
from mptctl.bench.loader import bench_loader
from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS
from mptctl.bench.runners import ROWS as LOADER_ROWS
from mptctl.bench.step import bench_step
from mptctl.bench.ways_to_train import STEP_ROWS
from mptctl.cli.runners.bench_tables import parse_names, print_kernel, print_loader, print_step
from mptctl.cli.show import show
from mptctl.machine.device import Precision, choose_device
from mptctl.recipe import load_recipe


def measure_loader(
    data_root: Path | None,
    recipe: str,
    overrides: list[str] | None,
    rows: str | None,
    repeats: int,
    seconds: float,
    device: str | None,
    *,
    sweep: bool,
    as_json: bool,
) -> None:
    """Measure how fast pictures come and print the result; parameters are the flags."""
    settings = load_recipe(recipe, overrides or [])
    result = bench_loader(
        settings,
        data_root=data_root,
        rows=parse_names("--rows", rows, LOADER_ROWS),
        repeats=repeats,
        seconds=seconds,
        device=choose_device(device or settings.runtime.device),
        sweep=sweep,
        say=partial(typer.echo, err=True),
    )
    show(result, print_loader, as_json=as_json)


def measure_kernel(
    rows: tuple[int, ...],
    classes: tuple[int, ...],
    dtypes: str | None,
    repeats: int,
    device: str | None,
    *,
    as_json: bool,
) -> None:
    """Measure the loss and its gradient and print the result.

    Args:
        rows, classes: batch sizes and numbers of classes; empty: those of `mptctl.bench.loss_timing`.
        dtypes, repeats, device, as_json: values of the flags.
    """
    result = bench_kernel(
        choose_device(device or "auto"),
        rows=rows or ROWS,
        classes=classes or CLASSES,
        dtypes=parse_names("--dtypes", dtypes, DTYPES),
        repeats=repeats,
        say=partial(typer.echo, err=True),
    )
    show(result, print_kernel, as_json=as_json)


def measure_step(
    recipe: str,
    overrides: list[str] | None,
    classes: int,
    rows: str | None,
    precision: str | None,
    steps: int,
    repeats: int,
    clock: Literal["wall", "cpu"],
    device: str | None,
    *,
    as_json: bool,
) -> None:
    """Measure a training step of mpt-kl and print the result; parameters are the flags."""
    settings = load_recipe(recipe, ["method.name=mpt-kl", *(overrides or [])])
    result = bench_step(
        settings,
        num_classes=classes,
        steps=steps,
        repeats=repeats,
        device=choose_device(device or settings.runtime.device),
        rows=parse_names("--rows", rows, STEP_ROWS),
        precisions=None if precision is None else parse_names("--precision", precision, get_args(Precision)),
        clock=clock,
    )
    show(result, print_step, as_json=as_json)
