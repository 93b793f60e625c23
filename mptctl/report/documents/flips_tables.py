"""The longer tables of a comparison in a terminal: classes, answers, slices, causes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from mptctl.evaluation.flip_report import ClassRow, FlipReport, PairRow, SliceRow
from mptctl.evaluation.slices.source import slice_name
from mptctl.report.documents.causes_wording import cause_lines, causes_sentence
from mptctl.report.media.numbers import format_count, format_interval, percent, q_value
from mptctl.report.media.tables import make_table, words


def classes_table(rows: Sequence[ClassRow], console: Console) -> Table:
    """What each class lost, and to which answer most of it."""
    table = make_table(
        console, "class", "flips", "NFR", "95 % interval", "error of OLD", "error of NEW", "mostly to",
        left=("mostly to",), spare=("error of OLD", "error of NEW", "NFR", "95 % interval"),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            words(row.label),
            format_count(row.nfr),
            percent(row.nfr.value),
            format_interval(row.nfr.ci95),
            percent(row.er_old),
            percent(row.er_new),
            words(row.taken_by or ""),
        )
    return table


def causes_table(report: FlipReport, console: Console) -> Group | None:
    """Why they flipped, and what that rests on; None where no cause was looked for."""
    if not (lines := cause_lines(report)):
        return None
    table = make_table(console, "cause", "", "flips", left=("",), spare=("",))
    for line in lines:
        table.add_row(line.name, line.meaning, line.count)
    return Group(Text(causes_sentence(report)), table)


def slices_table(rows: Sequence[SliceRow], console: Console) -> Table:
    """Parts of the test set."""
    table = make_table(
        console,
        "slice",
        "flips",
        "NFR",
        "95 % interval",
        "lost",
        "q",
        "",
        spare=("lost", "NFR", "95 % interval"),
    )
    for row in rows:
        table.add_row(
            words(slice_name(row.by)),
            f"{row.negative_flips:,} / {row.n:,}",
            percent(row.nfr),
            format_interval(row.nfr_ci95),
            percent(row.lost),
            q_value(row.q),
            Text("worse" if row.worse else "", style="bold red"),
        )
    return table


def pairs_table(rows: Sequence[PairRow], console: Console) -> Table:
    """From which class to which answer."""
    table = make_table(
        console, "class", "prediction", "which is", "flips",
        left=("prediction", "which is"), spare=("which is",),
    )  # fmt: skip
    for row in rows:
        kind = "a new class" if row.new_class else "an old class"
        table.add_row(words(row.label), words(row.answer), kind, f"{row.flips:,}")
    return table


def heading(what: str, limit: int = 0, total: int = 0) -> Text:
    """What stands above a list, and how much of it is shown."""
    more = f" ({limit} of {total:,}; --rows 0 shows all)" if 0 < limit < total else ""
    return Text(f"\n{what}{more}", style="bold")
