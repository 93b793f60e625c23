"""`mptctl bench`: speed on this machine, beside what a user would use instead, and the floor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.bench_evaluate import evaluate
from mptctl.cli.bench_kernel import kernel
from mptctl.cli.bench_step import step
from mptctl.cli.bench_table import conclude, print_table
from mptctl.cli.command import CommandGroup
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.bench.loader import LoaderBench

app = typer.Typer(cls=CommandGroup, help="Measure speed on this machine.")


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

        mptctl bench loader --recipe cifar10 --rows resident,dataloader-tvio
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
        spare=("augmentation", "slowest", "fastest"),
    )
    for name, reason in found.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    if found.tuned is not None:
        typer.echo("data:")
        for key, value in found.tuned.items():
            typer.echo(f"  {key}: {value:g}")
    from mptctl.bench.conclusions import loader_sentence

    conclude(loader_sentence(found))


app.command("kernel")(kernel)
app.command("step")(step)
