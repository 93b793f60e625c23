"""The work of `mptctl bench evaluate`, `kernel` and `step`: measure, then print a table or JSON."""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import typer

from mptctl.bench.evaluate import bench_evaluate
from mptctl.bench.kernel import bench_kernel
from mptctl.bench.kernel_bounds import GPUS
from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS
from mptctl.bench.step import bench_step
from mptctl.bench.ways_to_train import STEP_ROWS
from mptctl.cli.runners.bench_tables import chosen_names, print_evaluate, print_kernel, print_step
from mptctl.cli.show import show
from mptctl.evaluation.reading.workspace import parse_size
from mptctl.machine.device import Precision, choose_device
from mptctl.recipe import load_recipe


def measure_evaluate(rows: int, repeats: int, memory_limit: str, *, as_json: bool) -> None:
    """Measure the comparison of two generated files and print the result; parameters are the flags."""
    found = bench_evaluate(
        rows,
        repeats=repeats,
        memory_limit=parse_size(memory_limit, "--memory-limit"),
        say=partial(typer.echo, err=True),
    )
    show(found, print_evaluate, as_json=as_json)


def measure_kernel(
    rows: tuple[int, ...],
    classes: tuple[int, ...],
    dtypes: str | None,
    archs: str | None,
    repeats: int,
    device: str | None,
    *,
    as_json: bool,
) -> None:
    """Measure the loss and its gradient and print the result.

    Args:
        rows, classes: batch sizes and numbers of classes; the defaults where empty.
        dtypes, archs, repeats, device, as_json: the flags.
    """
    found = bench_kernel(
        choose_device(device or "auto"),
        rows=rows or ROWS,
        classes=classes or CLASSES,
        dtypes=chosen_names("--dtypes", dtypes, DTYPES),
        archs=chosen_names("--archs", archs, GPUS),
        repeats=repeats,
        say=partial(typer.echo, err=True),
    )
    show(found, print_kernel, as_json=as_json)


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
    """Measure a training step and print the result; parameters are the flags."""
    chosen = load_recipe(recipe, ["method.name=mpt-kl", *(overrides or [])])
    found = bench_step(
        chosen,
        num_classes=classes,
        steps=steps,
        repeats=repeats,
        device=choose_device(device or chosen.runtime.device),
        rows=chosen_names("--rows", rows, STEP_ROWS),
        precisions=None if precision is None else chosen_names("--precision", precision, get_args(Precision)),
        clock=clock,
    )
    show(found, print_step, as_json=as_json)
