"""The tables that `mptctl bench` prints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import typer

from mptctl.errors import UsageError
from mptctl.files.explained import nearest
from mptctl.report.media.document import Column, Document, Table
from mptctl.report.media.terminal import print_document

if TYPE_CHECKING:  # each of these imports libraries that the others do without
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import StepBench

Name = TypeVar("Name", bound=str)


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
    """Print the speed of each loader, and why others were not measured."""
    typer.echo(
        f"{bench.machine.cpu}, {bench.machine.cores} cores, {bench.machine.gpu or 'no GPU'}; "
        f"{bench.pictures:,} pictures ({bench.data}) to {bench.image_size} pixels, batches of "
        f"{bench.batch_size}"
    )
    _print_table(
        ("loader", "images/s", "slowest", "fastest", "workers", "augmentation"),
        [
            (
                row.name,
                f"{row.images_per_s:,.0f}",
                f"{min(row.runs):,.0f}",
                f"{max(row.runs):,.0f}",
                "" if row.workers is None else str(row.workers),
                row.augment or "",
            )
            for row in bench.rows
        ],
        words=("loader", "augmentation"),
    )
    for name, reason in bench.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")


def print_kernel(bench: KernelBench) -> None:
    """Print the times of the loss, beside the time that moving the bytes takes at least."""
    typer.echo(f"{bench.machine.gpu}; a copy moves {bench.copy_gb_per_s:,.0f} GB/s")
    typer.echo(f"two empty launches in a graph: {bench.two_launches_us:.2f} µs")
    _print_table(
        ("rows", "classes", "type", "way", "µs", "floor µs", "of floor", "a call, µs"),
        [
            (
                f"{row.n:,}",
                f"{row.c:,}",
                row.dtype,
                row.name,
                f"{row.us:,.1f}",
                f"{row.floor_us:,.1f}",
                f"{row.floor_us / row.us:.0%}",
                f"{row.call_us:,.1f}",
            )
            for row in bench.rows
        ],
        words=("type", "way"),
    )


def print_step(bench: StepBench) -> None:
    """Print the machine and the settings, the speed of each way to train, and ratios."""
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
                f"{row.images_per_s:,.0f}",
                f"{row.slowest:,.0f}",
                f"{row.fastest:,.0f}",
                f"{row.ms:.1f}",
            )
            for row in bench.rows
        ],
        words=("step", "precision"),
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
                ends = (f"{ratio.smallest:.3f}", f"{ratio.largest:.3f}")
                ratio_rows.append((title, ratios.precision, f"{ratio.median:.3f}", *ends))
    if ratio_rows:
        _print_table(
            ("time", "precision", "median", "smallest", "largest"), ratio_rows, words=("time", "precision")
        )


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str]) -> None:
    """Print a table as wide as the terminal.

    Args:
        columns: titles.
        rows: cells.
        words: titles of the columns of text, which stand at the left; numbers stand at the right.
    """
    shown = [
        Column[Sequence[str]](title, itemgetter(i), words=title in words) for i, title in enumerate(columns)
    ]
    print_document(Document([Table(list(rows), shown)]))
