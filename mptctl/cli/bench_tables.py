"""The tables that `mptctl bench` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer

from mptctl.errors import UsageError
from mptctl.files.explained import nearest
from mptctl.report.media.document import Column, Document, Table
from mptctl.report.media.terminal import print_document

if TYPE_CHECKING:  # each of these imports libraries that the others do without
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import Ratio, StepBench

Name = TypeVar("Name", bound=str)
Row = TypeVar("Row")


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
        bench.rows,
        Column("loader", lambda row: row.name, words=True),
        Column("images/s", lambda row: f"{row.images_per_s:,.0f}"),
        Column("slowest", lambda row: f"{min(row.runs):,.0f}"),
        Column("fastest", lambda row: f"{max(row.runs):,.0f}"),
        Column("workers", lambda row: "" if row.workers is None else str(row.workers)),
        Column("augmentation", lambda row: row.augment or "", words=True),
    )
    for name, reason in bench.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")


def print_kernel(bench: KernelBench) -> None:
    """Print the times of the loss, beside the time that moving the bytes takes at least."""
    typer.echo(f"{bench.machine.gpu}; a copy moves {bench.copy_gb_per_s:,.0f} GB/s")
    typer.echo(f"two empty launches in a graph: {bench.two_launches_us:.2f} µs")
    _print_table(
        bench.rows,
        Column("rows", lambda row: f"{row.n:,}"),
        Column("classes", lambda row: f"{row.c:,}"),
        Column("type", lambda row: row.dtype, words=True),
        Column("way", lambda row: row.name, words=True),
        Column("µs", lambda row: f"{row.us:,.1f}"),
        Column("floor µs", lambda row: f"{row.floor_us:,.1f}"),
        Column("of floor", lambda row: f"{row.floor_us / row.us:.0%}"),
        Column("a call, µs", lambda row: f"{row.call_us:,.1f}"),
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
        bench.rows,
        Column("step", lambda row: row.name, words=True),
        Column("precision", lambda row: row.precision, words=True),
        Column("images/s", lambda row: f"{row.images_per_s:,.0f}"),
        Column("slowest", lambda row: f"{row.slowest:,.0f}"),
        Column("fastest", lambda row: f"{row.fastest:,.0f}"),
        Column("ms", lambda row: f"{row.ms:.1f}"),
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
                ratio_rows.append(_RatioRow(title, ratios.precision, ratio))
    if ratio_rows:
        _print_table(
            ratio_rows,
            Column("time", lambda row: row.title, words=True),
            Column("precision", lambda row: row.precision, words=True),
            Column("median", lambda row: f"{row.ratio.median:.3f}"),
            Column("smallest", lambda row: f"{row.ratio.smallest:.3f}"),
            Column("largest", lambda row: f"{row.ratio.largest:.3f}"),
        )


class _RatioRow(NamedTuple):
    """A ratio of the times of two ways to train, in one precision."""

    title: str
    precision: str
    ratio: Ratio


def _print_table(rows: Sequence[Row], *columns: Column[Row]) -> None:
    """Print a table of some records, as wide as the terminal."""
    print_document(Document([Table(rows, columns)]))
