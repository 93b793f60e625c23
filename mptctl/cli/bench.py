"""`mptctl bench`: speed on this machine, beside what a user would use instead, and the floor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.bench_evaluate import evaluate
from mptctl.cli.bench_table import print_table
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import StepBench

app = typer.Typer(help="Measure speed on this machine, beside what a user would use instead.")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("evaluate")(evaluate)


@app.command("loader")
@prints({"--json": "mptctl.bench.loader:LoaderBench"})
def loader(
    data_root: Annotated[
        Path | None,
        typer.Option(
            "--data-root", metavar="DIR", help="Folder with train/CLASS/*. (default: generated JPEGs)"
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option("--recipe", metavar="NAME_OR_FILE", help="Picture size, augmentation, batch, model."),
    ] = "imagenet",
    overrides: opt.Overrides = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="NAMES", help="Only these rows, with commas between.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Runs of each row; rows take turns.")
    ] = 5,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=0.1, help="Length of a run.")] = 5.0,
    device: opt.Device = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Find the fastest settings of DALI here, and print the recipe's lines."),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """How fast pictures come: our loaders, a torch DataLoader, and what the model can take.

    Examples:

        mptctl bench loader --data-root ~/imagenet --tune

        mptctl bench loader --recipe cifar10 --data-root ~/cifar10-jpeg --rows resident,dataloader-tvio
    """
    from mptctl.bench.loader import bench_loader
    from mptctl.bench.runners import ROWS
    from mptctl.machine.device import choose_device
    from mptctl.recipe import load_recipe

    chosen = load_recipe(recipe, overrides or [])
    found = bench_loader(
        chosen,
        data_root=data_root,
        rows=ROWS if rows is None else tuple(name.strip() for name in rows.split(",")),
        repeats=repeats,
        seconds=seconds,
        device=choose_device(device or chosen.runtime.device),
        tune=tune,
        say=lambda line: typer.echo(line, err=True),
    )
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        _print_loader(found)


def _print_loader(found: LoaderBench) -> None:
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores, {found.machine.gpu or 'no GPU'}; "
        f"{found.pictures:,} pictures ({found.data}) to {found.image_size} pixels, batches of {found.batch_size}"
    )
    print_table(
        ("loader", "images/s", "slowest", "fastest", "workers", "augmentation"),
        [
            (
                row.name,
                *(f"{speed:,.0f}" for speed in (row.images_per_s, min(row.runs), max(row.runs))),
                "" if row.workers is None else str(row.workers),
                row.augment or "",
            )
            for row in found.rows
        ],
        words=("loader", "augmentation"),
    )
    for name, reason in found.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    typer.echo(found.verdict)
    if found.tuned is not None:
        typer.echo("data:")
        for key, value in found.tuned.items():
            typer.echo(f"  {key}: {value:g}")


@app.command("kernel")
@prints({"--json": "mptctl.bench.kernel:KernelBench"})
def kernel(
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="N,N", help="Batch sizes. (default: 128,4096)")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", metavar="N,N", help="Numbers of classes. (default: 100,1000,21841)"),
    ] = None,
    dtypes: Annotated[
        str | None, typer.Option("--dtypes", metavar="NAMES", help="Types. (default: float32,bfloat16)")
    ] = None,
    archs: Annotated[
        str | None,
        typer.Option(
            "--archs", metavar="NAMES", help="GPUs to count for without one. (default: sm_80,sm_90,sm_100)"
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Timed runs of each row, on a GPU.")
    ] = 25,
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """How fast the loss and its gradient are on a GPU: eager PyTorch, torch.compile, and the fused kernel.

    Without a GPU the fused kernel is compiled for some, and its machine code says what bounds it.

    Examples:

        mptctl bench kernel

        mptctl bench kernel --rows 4096 --classes 1000 --archs sm_90 --json
    """
    numbers = _numbers("--rows", rows), _numbers("--classes", classes)
    # Here, because it takes seconds to import.
    from mptctl.bench.kernel import bench_kernel
    from mptctl.bench.kernel_bounds import GPUS
    from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS
    from mptctl.machine.device import choose_device

    found = bench_kernel(
        choose_device(device or "auto"),
        rows=numbers[0] or ROWS,
        classes=numbers[1] or CLASSES,
        dtypes=_names("--dtypes", dtypes, DTYPES) or tuple(DTYPES),
        archs=_names("--archs", archs, GPUS) or tuple(GPUS),
        repeats=repeats,
        say=lambda line: typer.echo(line, err=True),
    )
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        _print_kernel(found)


@app.command("step")
@prints({"--json": "mptctl.bench.step:StepBench"})
def step(
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="NAME_OR_FILE", help="Model, picture size, batch, precision.")
    ] = "cifar100",
    overrides: opt.Overrides = None,
    classes: Annotated[
        int, typer.Option("--classes", metavar="N", min=2, help="Number of classes; half of them are old.")
    ] = 100,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Steps of a run.")] = 10,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Runs of each row; rows take turns.")
    ] = 5,
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """How fast a training step is on pictures that are already there: the student alone, a plain loop, and ours.

    Examples:

        mptctl bench step

        mptctl bench step --recipe imagenet --classes 1000 --set optim.batch_size=32 --json
    """
    from mptctl.bench.step import bench_step
    from mptctl.machine.device import choose_device
    from mptctl.recipe import load_recipe

    chosen = load_recipe(recipe, ["method.name=mpt-kl", *(overrides or [])])
    found = bench_step(
        chosen,
        num_classes=classes,
        steps=steps,
        repeats=repeats,
        device=choose_device(device or chosen.runtime.device),
    )
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        _print_step(found)


def _print_step(found: StepBench) -> None:
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores, {found.machine.gpu or 'no GPU'}; {found.method}, "
        f"{found.arch} at {found.image_size} pixels, batches of {found.batch_size}, loss by {found.loss_backend}"
    )
    print_table(
        ("step", "images/s", "slowest", "fastest", "ms"),
        [
            (
                row.name,
                *(f"{speed:,.0f}" for speed in (row.images_per_s, row.slowest, row.fastest)),
                f"{row.ms:.1f}",
            )
            for row in found.rows
        ],
        words=("step",),
    )


def _numbers(flag: str, text: str | None) -> tuple[int, ...]:
    from mptctl.errors import UsageError

    names = [] if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if not name.isdecimal() or int(name) < 2:
            raise UsageError(
                f"{flag}: {name!r} is not a number of at least 2; give numbers with commas between"
            )
    return tuple(map(int, names))


def _names(flag: str, text: str | None, known: Iterable[str]) -> tuple[str, ...]:
    from mptctl.errors import UsageError

    names = [] if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f"{flag}: {name!r} is unknown; choose from {', '.join(known)}")
    return tuple(names)


def _print_kernel(found: KernelBench) -> None:
    if found.device != "cuda":
        _print_counts(found)
        return
    typer.echo(f"{found.machine.gpu}; a copy moves {found.copy_gb_per_s:,.0f} GB/s")
    typer.echo(f"two empty launches in a graph: {found.two_launches_us:.2f} µs")
    print_table(
        ("rows", "classes", "type", "way", "µs", "issue µs", "floor µs", "of floor", "a call, µs"),
        [
            (
                f"{row.n:,}",
                f"{row.c:,}",
                row.dtype,
                row.name,
                f"{row.us:,.1f}",
                "" if row.issue_us is None else f"{row.issue_us:,.1f}",
                f"{row.floor_us:,.1f}",
                f"{row.floor_us / (row.us or math.inf):.0%}",
                f"{row.call_us:,.1f}",
            )
            for row in found.rows
        ],
        words=("type", "way"),
    )


def _print_counts(found: KernelBench) -> None:
    typer.echo("µs by machine code, without a GPU: the largest of issue, alu, fma, sfu and floor binds")
    print_table(
        ("GPU", "rows", "classes", "type", "regs", "spills", "load", "issue", "alu", "fma", "sfu", "floor",
         "issue/floor", "binds"),
        [
            (
                row.arch or "",
                f"{row.n:,}",
                f"{row.c:,}",
                row.dtype,
                str(row.registers),
                "yes" if row.spills else "no",
                str(row.load_bits),
                *(f"{us:,.1f}" for us in (row.issue_us, row.alu_us, row.fma_us, row.sfu_us, row.floor_us)),
                f"{(row.issue_us or 0.0) / row.floor_us:.2f}",
                row.binds or "",
            )
            for row in found.rows
        ],
        words=("GPU", "type", "binds"),
    )  # fmt: skip
    kinds = list(found.rows[0].instructions or ()) if found.rows else []
    typer.echo("\nexecuted instructions a thread and logit of the student")
    print_table(
        ("GPU", "classes", "type", *kinds, "all"),
        [
            (
                row.arch or "",
                f"{row.c:,}",
                row.dtype,
                *(f"{count:.1f}" for count in row.instructions.values()),
                f"{sum(row.instructions.values()):.1f}",
            )
            for row in found.rows
            if row.instructions and row.n == found.rows[-1].n
        ],
        words=("GPU", "type"),
    )
