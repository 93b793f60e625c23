"""`mptctl bench`: speed on this machine beside the alternatives and, where there is one, the lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mptctl.cli import options as opt
from mptctl.cli.command import command_group
from mptctl.cli.json_models import prints
from mptctl.errors import UsageError

app = command_group("Measure speed on this machine.")


@app.command("loader")
@prints({"--json": "mptctl.bench.loader:LoaderBench"})
def loader(
    data_root: Annotated[
        Path | None,
        typer.Option(
            "--data-root",
            metavar="DIR",
            help="Folder with train/CLASS/*, or a tar file of one. (default: generated JPEGs)",
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
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="Find the fastest settings of DALI here, and print the recipe's lines."),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Measure how fast pictures come: our loaders, a torch DataLoader, and what the model can take.

    Examples:

        mptctl bench loader --data-root ~/imagenet --sweep

        mptctl bench loader --recipe cifar10 --rows resident,dataloader-torchcodec
    """
    from mptctl.cli.runners.bench import measure_loader

    measure_loader(data_root, recipe, overrides, rows, repeats, seconds, device, sweep=sweep, as_json=as_json)


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
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Timed runs of each row.")
    ] = 25,
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """Measure the loss and its gradient on a GPU: eager PyTorch, torch.compile, and the fused kernel.

    Examples:

        mptctl bench kernel

        mptctl bench kernel --rows 4096 --classes 1000 --json
    """
    row_counts, class_counts = _parse_numbers("--rows", rows), _parse_numbers("--classes", classes)
    # After the numbers, because it takes seconds to import.
    from mptctl.cli.runners.bench import measure_kernel

    measure_kernel(row_counts, class_counts, dtypes, repeats, device, as_json=as_json)


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


@app.command("step")
@prints({"--json": "mptctl.bench.step:StepBench"})
def step(
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="NAME_OR_FILE", help="Model, picture size, batch, threads.")
    ] = "cifar100",
    overrides: opt.Overrides = None,
    classes: Annotated[
        int, typer.Option("--classes", metavar="N", min=2, help="Number of classes; half of them are old.")
    ] = 100,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="NAMES", help="Only these rows, with commas between.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="NAMES",
            help="fp32, bf16 or both, with a comma, of student and teachers. (default: the recipe's)",
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Steps of a run.")] = 10,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Runs of each row; rows take turns.")
    ] = 5,
    clock: Annotated[
        Literal["wall", "cpu"],
        typer.Option("--clock", help="wall; or cpu, where other jobs share the processor."),
    ] = "wall",
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """Measure a training step on pictures that are already there, beside its floor and a published loop.

    Rows are student, floor (student and its teachers' forward passes), published, ours, ours-cached
    and, on a GPU, floor-graph and ours-graph (floor and ours as one CUDA graph).

    Examples:

        mptctl bench step --precision fp32,bf16

        mptctl bench step --recipe imagenet --classes 1000 --rows floor,ours
    """
    from mptctl.cli.runners.bench import measure_step

    measure_step(recipe, overrides, classes, rows, precision, steps, repeats, clock, device, as_json=as_json)
