"""The quickstart's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich import box
from rich.console import Console
from rich.table import Table

from mptctl.report.wording import percent


class Row(Protocol):
    """What the table needs of a model."""

    @property
    def model(self) -> str: ...
    @property
    def negative_flips(self) -> int: ...
    @property
    def n_old(self) -> int: ...
    @property
    def nfr(self) -> float: ...
    @property
    def rel_nfr(self) -> float | None: ...
    @property
    def er_old_classes(self) -> float: ...
    @property
    def er_all(self) -> float: ...


def print_quickstart(rows: Sequence[Row], meaning: str, page: str, console: Console) -> None:
    """Print one row for each update, what it means, and where to look next."""
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("model")
    for heading in ("flips", "NFR", "Rel-NFR", "error, old", "error, all"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.model,
            f"{row.negative_flips} / {row.n_old}",
            percent(row.nfr),
            percent(row.rel_nfr),
            percent(row.er_old_classes),
            percent(row.er_all),
        )
    console.print(table)
    console.print(meaning, highlight=False, markup=False)
    console.print(f"The flipped characters themselves: {page}", highlight=False, markup=False, soft_wrap=True)
