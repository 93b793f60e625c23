"""`mptctl bench kernel`: how fast the fused loss is, or what bounds it where there is no GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.bench_table import conclude, print_table
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.bench.kernel import KernelBench


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
        from mptctl.bench.conclusions import kernel_sentence

        _print_kernel(found)
        conclude(kernel_sentence(found))


def _items(text: str | None) -> list[str]:
    return [] if text is None else [item.strip() for item in text.split(",")]


def _numbers(flag: str, text: str | None) -> tuple[int, ...]:
    from mptctl.errors import UsageError

    for item in _items(text):
        if not item.isdecimal() or int(item) < 2:
            raise UsageError(
                f"{flag}: {item!r} is not a number of at least 2; give numbers with commas between"
            )
    return tuple(map(int, _items(text)))


def _names(flag: str, text: str | None, known: Iterable[str]) -> tuple[str, ...]:
    from mptctl.errors import UsageError

    for item in _items(text):
        if item not in known:
            raise UsageError(f"{flag}: {item!r} is unknown; choose from {', '.join(known)}")
    return tuple(_items(text))


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


# What a kind of instruction is called at the head of a narrow column.
_SHORT = {
    "arithmetic": "fma",
    "compare and select": "cmp",
    "special": "sfu",
    "convert and bits": "bits",
    "integer": "int",
    "exchange": "exch",
    "load and store": "mem",
    "other": "rest",
}


def _print_counts(found: KernelBench) -> None:
    typer.echo("µs by machine code, without a GPU: the largest of issue, alu, sfu and floor binds")
    print_table(
        ("GPU", "rows", "classes", "type", "issue", "alu", "sfu", "floor", "ratio", "binds"),
        [
            (
                row.arch or "",
                f"{row.n:,}",
                f"{row.c:,}",
                row.dtype,
                *(f"{us:,.1f}" for us in (row.issue_us, row.alu_us, row.sfu_us, row.floor_us)),
                f"{(row.issue_us or 0.0) / row.floor_us:.2f}",
                row.binds or "",
            )
            for row in found.rows
        ],
        words=("GPU", "type", "binds"),
    )
    typer.echo("\nhow it is compiled")
    print_table(
        ("GPU", "classes", "type", "rows a program", "warps", "registers", "spills", "load bits"),
        [
            (
                row.arch or "",
                f"{row.c:,}",
                row.dtype,
                *map(str, (row.rows_per_program, row.num_warps, row.registers)),
                "yes" if row.spills else "no",
                str(row.load_bits),
            )
            for row in found.rows
            if row.n == found.rows[-1].n
        ],
        words=("GPU", "type"),
    )
    typer.echo("\nexecuted instructions a thread and logit of the student")
    print_table(
        ("GPU", "classes", "type", *_SHORT.values(), "all"),
        [
            (
                row.arch or "",
                f"{row.c:,}",
                row.dtype,
                *(f"{row.instructions[kind]:.1f}" for kind in _SHORT),
                f"{sum(row.instructions.values()):.1f}",
            )
            for row in found.rows
            if row.instructions and row.n == found.rows[-1].n
        ],
        words=("GPU", "type"),
    )
