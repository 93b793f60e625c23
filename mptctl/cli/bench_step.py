"""`mptctl bench step`: how fast a training step is, beside what it must cost and what published code takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.bench_table import conclude, print_table
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.bench.step import StepBench


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
        str,
        typer.Option("--clock", metavar="NAME", help="wall; or cpu, where other jobs share the processor."),
    ] = "wall",
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """How fast a training step is on pictures that are already there, beside its floor and a published loop.

    Rows are student, floor (student and its teachers' forward passes), published, ours, ours-cached and ours-lockstep.

    Examples:

        mptctl bench step --precision fp32,bf16

        mptctl bench step --recipe imagenet --classes 1000 --rows floor,ours
    """
    from mptctl.bench.step import bench_step
    from mptctl.bench.ways_to_train import STEP_ROWS
    from mptctl.machine.device import choose_device
    from mptctl.recipe import load_recipe

    chosen = load_recipe(recipe, ["method.name=mpt-kl", *(overrides or [])])
    found = bench_step(
        chosen,
        num_classes=classes,
        steps=steps,
        repeats=repeats,
        device=choose_device(device or chosen.runtime.device),
        rows=STEP_ROWS if rows is None else _names(rows),
        precisions=None if precision is None else _names(precision),
        clock=clock,
    )
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        print_step_bench(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def print_step_bench(found: StepBench) -> None:
    """Print the machine and the settings, a row for each way, ratios and the sentence that follows."""
    from mptctl.bench.conclusions import step_sentence

    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores, {found.machine.gpu or 'no GPU'}; {found.method}, "
        f"{found.arch} at {found.image_size} pixels, batches of {found.batch_size}, {found.threads} "
        f"{'thread' if found.threads == 1 else 'threads'}, loss by {found.loss_backend}, {found.clock} time"
        f"{', fp32 with convolutions in TF32' if found.tf32 else ''}"
    )
    print_table(
        ("step", "precision", "images/s", "slowest", "fastest", "ms"),
        [
            (
                row.name,
                row.precision,
                *(f"{speed:,.0f}" for speed in (row.images_per_s, row.slowest, row.fastest)),
                f"{row.ms:.1f}",
            )
            for row in found.rows
        ],
        words=("step", "precision"),
        spare=("slowest", "fastest"),
    )
    for name, reason in found.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    ratios = [
        (
            title,
            of_one.precision,
            *(f"{value:.3f}" for value in (ratio.median, ratio.smallest, ratio.largest)),
        )
        for of_one in found.ratios
        for title, ratio in (
            ("ours / floor", of_one.ours_to_floor),
            ("ours-cached / student", of_one.cached_to_student),
            ("ours / published", of_one.ours_to_published),
            ("ours-lockstep / ours", of_one.lockstep_to_ours),
            ("ours / ours in fp32", of_one.ours_to_fp32),
        )
        if ratio is not None
    ]
    if ratios:
        print_table(
            ("time", "precision", "median", "smallest", "largest"), ratios, words=("time", "precision")
        )
    conclude(step_sentence(found))
