"""`mptctl bench loader`, `kernel` and `step`: measure, then print a table or JSON."""

from __future__ import annotations

from functools import partial
from typing import get_args

import typer

from mptctl.bench.requests import KernelRequest, LoaderRequest, StepRequest
from mptctl.cli.bench_tables import parse_names, print_kernel, print_loader, print_step
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.recipe import load_recipe

# Modules with torch, which takes seconds to import, are imported after the checks.


def measure_loader(asked: LoaderRequest) -> None:
    """Measure how fast pictures come, and print the result."""
    from mptctl.bench.loader import bench_loader
    from mptctl.bench.runners import ROWS
    from mptctl.machine.device import choose_device

    recipe = load_recipe(asked.recipe, asked.overrides)
    result = bench_loader(
        recipe,
        data_root=asked.data_root,
        rows=parse_names("--rows", asked.rows, ROWS),
        repeats=asked.repeats,
        seconds=asked.seconds,
        device=choose_device(asked.device or recipe.runtime.device),
        say=partial(typer.echo, err=True),
    )
    show(result, print_loader, as_json=asked.as_json)


def measure_kernel(asked: KernelRequest) -> None:
    """Measure the loss and its gradient, and print the result."""
    rows = _parse_numbers("--rows", asked.rows)
    classes = _parse_numbers("--classes", asked.classes)
    from mptctl.bench.kernel import bench_kernel
    from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS
    from mptctl.machine.device import choose_device

    result = bench_kernel(
        choose_device(asked.device or "auto"),
        rows=rows or ROWS,
        classes=classes or CLASSES,
        dtypes=parse_names("--dtypes", asked.dtypes, DTYPES),
        repeats=asked.repeats,
        say=partial(typer.echo, err=True),
    )
    show(result, print_kernel, as_json=asked.as_json)


def measure_step(asked: StepRequest) -> None:
    """Measure a training step of mpt-kl, and print the result."""
    from mptctl.bench.step import bench_step
    from mptctl.bench.ways_to_train import STEP_ROWS
    from mptctl.machine.device import Precision, choose_device

    recipe = load_recipe(asked.recipe, ["method.name=mpt-kl", *asked.overrides])
    known = get_args(Precision)
    result = bench_step(
        recipe,
        num_classes=asked.classes,
        steps=asked.steps,
        repeats=asked.repeats,
        device=choose_device(asked.device or recipe.runtime.device),
        rows=parse_names("--rows", asked.rows, STEP_ROWS),
        precisions=None if asked.precision is None else parse_names("--precision", asked.precision, known),
        clock=asked.clock,
    )
    show(result, print_step, as_json=asked.as_json)


def _parse_numbers(flag: str, text: str | None) -> tuple[int, ...]:
    """The numbers that a flag lists with commas between; empty where the flag is not given.

    Raises:
        UsageError: one of them is no whole number of at least 2.
    """
    words = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if not word.isdecimal() or int(word) < 2:
            raise UsageError(
                f"{flag}: {word!r} is not a number of at least 2; give numbers with commas between"
            )
    return tuple(map(int, words))
