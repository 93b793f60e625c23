"""The tables that `mptctl bench` prints, each with a conclusion below it."""

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

if TYPE_CHECKING:  # each of these imports libraries that the others do without
    from mptctl.bench.evaluate import EvaluateBench
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import StepBench
    from mptctl.bench.sweep import LoaderSweep

Name = TypeVar("Name", bound=str)

# Kinds of instructions, and their names at the heads of narrow columns.
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


def parse_names(flag: str, text: str | None, known: Iterable[Name]) -> tuple[Name, ...]:
    """The known names that a flag lists with commas between; all known ones where it is not given.

    Raises:
        UsageError: one of them is unknown.
    """
    known_names = {str(name): name for name in known}
    names = list(known_names) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known_names:
            raise UsageError(f"{flag} {name or repr(name)}: unknown{nearest(name, list(known_names))}")
    return tuple(known_names[name] for name in names)


def print_loader(bench: LoaderBench) -> None:
    """Print the speed of each loader, why others were not measured, and the settings found for DALI."""
    typer.echo(
        f"{bench.machine.cpu}, {bench.machine.cores} cores, {bench.machine.gpu or 'no GPU'}; "
        f"{bench.pictures:,} pictures ({bench.data}) to {bench.image_size} pixels, batches of "
        f"{bench.batch_size}"
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
            for row in bench.rows
        ],
        words=("loader", "source", "augmentation"),
        spare=("augmentation", "slowest", "fastest"),
    )
    for name, reason in bench.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    if bench.sweep is not None:
        _print_sweep(bench.sweep)
    _conclude(loader_sentence(bench))


def _print_sweep(sweep: LoaderSweep) -> None:
    """Print what the hardware decoder is, and the fastest settings as lines of a recipe."""
    for line in ([] if sweep.decoder is None else [sweep.decoder.describe()]) + [sweep.verdict]:
        typer.echo(line)
    if sweep.settings:
        typer.echo("data:")
    for key, value in sweep.settings.items():
        typer.echo(f"  {key}: {value:g}")


def print_evaluate(bench: EvaluateBench) -> None:
    """Print the time and memory of each way to compare two files."""
    typer.echo(
        f"{bench.machine.cpu}, {bench.machine.cores} cores; {bench.rows[0].rows:,} rows a file, "
        f"{bench.memory_limit_gb:g} GB for tables and joins"
    )
    _print_table(
        ("way", "seconds", "fastest", "slowest", "peak GB"),
        [
            (
                row.name,
                *(f"{s:.2f}" for s in (row.seconds, min(row.runs), max(row.runs))),
                f"{row.peak_gb:.2f}",
            )
            for row in bench.rows
        ],
        words=("way",),
        spare=("fastest", "slowest"),
    )
    _conclude(evaluate_sentence(bench))


def print_kernel(bench: KernelBench) -> None:
    """Print the times of the loss on a GPU; without one, the bounds that its machine code sets."""
    if bench.device == "cuda":
        _print_times(bench)
    else:
        _print_counts(bench)
    _conclude(kernel_sentence(bench))


def _print_times(bench: KernelBench) -> None:
    """Print the measured times on a GPU, beside the time that moving the bytes takes at least."""
    typer.echo(f"{bench.machine.gpu}; a copy moves {bench.copy_gb_per_s:,.0f} GB/s")
    typer.echo(f"two empty launches in a graph: {bench.two_launches_us:.2f} µs")
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
            for row in bench.rows
        ],
        words=("type", "way"),
    )


def _print_counts(bench: KernelBench) -> None:
    """Print three tables on the compiled kernel: its bounds, how it is compiled, and its instructions."""
    last_batch_size = bench.rows[-1].n if bench.rows else None  # no rows where nothing could be compiled
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
            for row in bench.rows
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
            for row in bench.rows
            if row.n == last_batch_size
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
            for row in bench.rows
            if row.instructions and row.n == last_batch_size
        ],
        words=("GPU", "type"),
    )


def print_step(bench: StepBench) -> None:
    """Print the machine and the settings, the speed of each way to train, ratios, and the conclusion."""
    typer.echo(
        f"{bench.machine.cpu}, {bench.machine.cores} cores, {bench.machine.gpu or 'no GPU'}; {bench.method}, "
        f"{bench.arch} at {bench.image_size} pixels, batches of {bench.batch_size}, {bench.threads} "
        f"{'thread' if bench.threads == 1 else 'threads'}, loss by {bench.loss_backend}, {bench.clock} time"
        f"{', fp32 with convolutions in TF32' if bench.tf32 else ''}"
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
            for row in bench.rows
        ],
        words=("step", "precision"),
        spare=("slowest", "fastest"),
    )
    for name, reason in bench.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    ratio_rows = []
    for ratios in bench.ratios:
        by_title = {
            "ours / floor": ratios.ours_to_floor,
            "ours-cached / student": ratios.cached_to_student,
            "ours / published": ratios.ours_to_published,
            "ours-graph / floor-graph": ratios.graph_to_floor_graph,
            "ours-graph / ours": ratios.graph_to_ours,
            "ours / ours in fp32": ratios.ours_to_fp32,
        }
        for title, ratio in by_title.items():
            if ratio is not None:
                values = [f"{value:.3f}" for value in (ratio.median, ratio.smallest, ratio.largest)]
                ratio_rows.append((title, ratios.precision, *values))
    if ratio_rows:
        _print_table(
            ("time", "precision", "median", "smallest", "largest"), ratio_rows, words=("time", "precision")
        )
    _conclude(step_sentence(bench))


def _print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str], spare: Sequence[str] = ()
) -> None:
    """Print a table as wide as the terminal.

    Args:
        columns: titles.
        rows: cells.
        words: titles of the columns of text, which stand at the left; numbers stand at the right.
        spare: titles of columns that a narrow terminal leaves out, the first of them first.
    """
    order = {title: place for place, title in enumerate(spare, start=1)}
    styled = [Column(title, words=title in words, spare=order.get(title, 0)) for title in columns]
    print_parts([Table(styled, list(rows))], Console())


def _conclude(sentence: str) -> None:
    """Print the sentence with which a bench ends."""
    print_parts([Note(sentence, "strong", whole=True)], Console())
