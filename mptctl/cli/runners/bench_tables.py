"""The tables that `mptctl bench` prints, each with a sentence below it; and the rows that a flag names."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console

from mptctl.bench.conclusions import evaluate_sentence, kernel_sentence, loader_sentence, step_sentence
from mptctl.errors import UsageError
from mptctl.files.explained import nearest
from mptctl.report.media.document import Column, Note, Table
from mptctl.report.media.terminal import print_parts

if TYPE_CHECKING:  # each bench imports what the others do without
    from mptctl.bench.evaluate import EvaluateBench
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import StepBench

Name = TypeVar("Name", bound=str)

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


def chosen_names(flag: str, text: str | None, known: Iterable[Name]) -> tuple[Name, ...]:
    """The names that a flag lists with commas between; all where it is not given.

    Raises:
        UsageError: one of them is unknown.
    """
    names = {str(name): name for name in known}
    chosen = list(names) if text is None else [name.strip() for name in text.split(",")]
    for name in chosen:
        if name not in names:
            raise UsageError(f"{flag} {name or repr(name)}: unknown{nearest(name, list(names))}")
    return tuple(names[name] for name in chosen)


def print_loader(found: LoaderBench) -> None:
    """Print the speed of each loader, what could not be measured, and settings."""
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores, {found.machine.gpu or 'no GPU'}; "
        f"{found.pictures:,} pictures ({found.data}) to {found.image_size} pixels, batches of "
        f"{found.batch_size}"
    )
    _print_table(
        ("loader", "source", "images/s", "slowest", "fastest", "workers", "augmentation"),
        [
            (
                row.name,
                row.source or "",
                *(f"{speed:,.0f}" for speed in (row.images_per_s, min(row.runs), max(row.runs))),
                "" if row.workers is None else str(row.workers),
                row.augment or "",
            )
            for row in found.rows
        ],
        words=("loader", "source", "augmentation"),
        spare=("augmentation", "slowest", "fastest"),
    )
    for name, reason in found.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    if found.tuned is not None:
        typer.echo("data:")
        for key, value in found.tuned.items():
            typer.echo(f"  {key}: {value:g}")
    _conclude(loader_sentence(found))


def print_evaluate(found: EvaluateBench) -> None:
    """Print the time and memory of each way to compare two files."""
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores; {found.rows[0].rows:,} rows a file, "
        f"{found.memory_limit_gb:g} GB for tables and joins"
    )
    _print_table(
        ("way", "seconds", "fastest", "slowest", "peak GB"),
        [
            (
                row.name,
                *(f"{s:.2f}" for s in (row.seconds, min(row.runs), max(row.runs))),
                f"{row.peak_gb:.2f}",
            )
            for row in found.rows
        ],
        words=("way",),
        spare=("fastest", "slowest"),
    )
    _conclude(evaluate_sentence(found))


def print_kernel(found: KernelBench) -> None:
    """Print times of the loss, or, without a GPU, what its machine code says."""
    if found.device == "cuda":
        _print_times(found)
    else:
        _print_counts(found)
    _conclude(kernel_sentence(found))


def _print_times(found: KernelBench) -> None:
    typer.echo(f"{found.machine.gpu}; a copy moves {found.copy_gb_per_s:,.0f} GB/s")
    typer.echo(f"two empty launches in a graph: {found.two_launches_us:.2f} µs")
    _print_table(
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
    typer.echo("µs by machine code, without a GPU: the largest of issue, alu, sfu and floor binds")
    _print_table(
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
    _print_table(
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
    _print_table(
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


def print_step(found: StepBench) -> None:
    """Print the machine and the settings, a row for each way, ratios and the sentence that follows."""
    typer.echo(
        f"{found.machine.cpu}, {found.machine.cores} cores, {found.machine.gpu or 'no GPU'}; {found.method}, "
        f"{found.arch} at {found.image_size} pixels, batches of {found.batch_size}, {found.threads} "
        f"{'thread' if found.threads == 1 else 'threads'}, loss by {found.loss_backend}, {found.clock} time"
        f"{', fp32 with convolutions in TF32' if found.tf32 else ''}"
    )
    _print_table(
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
        _print_table(
            ("time", "precision", "median", "smallest", "largest"), ratios, words=("time", "precision")
        )
    _conclude(step_sentence(found))


def _print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str], spare: Sequence[str] = ()
) -> None:
    """Print columns: those of ``words`` at the left, numbers at the right; spare ones may go."""
    order = {title: place for place, title in enumerate(spare, start=1)}
    made = [Column(title, words=title in words, spare=order.get(title, 0)) for title in columns]
    print_parts([Table(made, list(rows))], Console())


def _conclude(sentence: str) -> None:
    """Say what a bench comes to, as its last line."""
    print_parts([Note(sentence, "strong", whole=True)], Console())
