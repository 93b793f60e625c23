"""The flip table in a terminal, at 80 columns or more; plain text in a pipe."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mptctl.evaluation.flip_report import ClassRow, FlipReport, PairRow, SliceRow
from mptctl.evaluation.slices import slice_name
from mptctl.names import SortKey
from mptctl.report.causes_wording import CauseLine, cause_lines, causes_sentence
from mptctl.report.tables import make_table, words
from mptctl.report.wording import (
    format_count,
    format_interval,
    model_lines,
    percent,
    q_value,
    rate_lines,
    slices_sentence,
    sort_classes,
    verdict,
)

STYLES = {"passed": "bold green", "failed": "bold red", "undecided": "bold yellow", "ungated": "bold"}
# Rows of a list where there is no terminal whose height could say, and the least where there is one.
PIPE_ROWS, LEAST_ROWS = 10, 5
# Old confidence from which an answer counts as sure.
SURE = 0.9


def print_report(
    report: FlipReport, console: Console, sort: SortKey = "flips", rows: int | None = None
) -> None:
    """Print a comparison.

    Args:
        report: the comparison.
        console: where; its width is kept to.
        sort: column that orders the classes.
        rows: most classes to list; 0: all; None: as many as fit the terminal.
    """
    top = Group(*_top(report, console))
    console.print(top)
    if rows is None:
        used = len(console.render_lines(top)) + 10
        rows = max(LEAST_ROWS, (console.height - used) // 2) if console.is_terminal else PIPE_ROWS
    if lines := cause_lines(report):
        console.print(_heading("Why they flipped"), Text(causes_sentence(report)), _causes(lines, console))
    if sentence := slices_sentence(report):
        console.print(_heading("Slices, lowest q first", rows, len(report.slices)))
        console.print(words(sentence))
        if report.slices:
            console.print(_slices(report.slices[: rows or None], console))
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    if classes:
        console.print(
            _heading("Old classes, worst first", rows, len(classes)),
            _classes(classes[: rows or None], console),
        )
    if report.pairs:
        console.print(_heading("From class to new answer, most first", rows, len(report.pairs)))
        console.print(_pairs(report.pairs[: rows or None], console))


def _top(report: FlipReport, console: Console) -> list[RenderableType]:
    answer = verdict(report)
    parts: list[RenderableType] = [
        words(f"old  {report.old.name}{_classes_known(report.old.classes)}"),
        words(f"new  {report.new.name}{_classes_known(report.new.classes)}"),
        Text(),
        words(answer.title, style=STYLES[answer.state]),
        *(words(sentence) for sentence in answer.sentences),
        *(words(f"Note: {warning}.", style="yellow") for warning in report.warnings),
    ]
    counts = report.counts
    cells = make_table(console, "", "new right", "new wrong")
    cells.add_row("old right", f"{counts.both_right:,}", Text(f"{counts.negative_flips:,}", style="bold red"))
    cells.add_row("old wrong", Text(f"{counts.positive_flips:,}", style="green"), f"{counts.both_wrong:,}")

    rates = make_table(console, "rate", "", "value", "95 % interval", "count", left=("",))
    for line in rate_lines(report):
        rates.add_row(
            line.name,
            line.meaning,
            percent(line.rate.value),
            format_interval(line.rate.ci95),
            format_count(line.rate),
        )

    models = make_table(console, "model", "old", "new")
    for row in model_lines(report):
        models.add_row(row.name, row.old, row.new)

    parts += [_heading(f"{report.n_old:,} test samples of old classes"), cells, Text(), rates, Text(), models]
    went = report.destinations
    if went.to_new_class.of:
        parts += [
            Text(),
            Text(
                f"Flips went to old classes: {format_count(went.to_old_class)} "
                f"({percent(went.to_old_class.value, 0)}), "
                f"to new classes: {format_count(went.to_new_class)} ({percent(went.to_new_class.value, 0)})."
            ),
        ]
    if report.by_confidence:
        sure = [row for row in report.by_confidence if row.low >= SURE]
        flips, of = sum(row.flips.count for row in sure), sum(row.flips.of for row in sure)
        parts.append(
            Text(f"Of right old answers with confidence {SURE:g} or more, {flips:,} / {of:,} flipped.")
        )
    return parts


def _classes(rows: list[ClassRow], console: Console) -> Table:
    table = make_table(
        console, "class", "flips", "NFR", "error old", "error new", "most to", left=("most to",)
    )
    for row in rows:
        table.add_row(
            words(row.label),
            format_count(row.nfr),
            percent(row.nfr.value, 1),
            percent(row.er_old, 1),
            percent(row.er_new, 1),
            words(row.taken_by or ""),
        )
    return table


def _causes(lines: list[CauseLine], console: Console) -> Table:
    table = make_table(console, "cause", "", "flips", "share", left=("",))
    for line in lines:
        table.add_row(line.name, line.meaning, format_count(line.flips), percent(line.flips.value, 0))
    return table


def _slices(rows: list[SliceRow], console: Console) -> Table:
    table = make_table(console, "slice", "flips", "NFR", "95 % interval", "lost", "q", "")
    for row in rows:
        table.add_row(
            words(slice_name(row.by)),
            f"{row.negative_flips:,} / {row.n:,}",
            percent(row.nfr),
            format_interval(row.nfr_ci95, 1),
            percent(row.lost, 1),
            q_value(row.q),
            Text("worse" if row.worse else "", style="bold red"),
        )
    return table


def _pairs(rows: list[PairRow], console: Console) -> Table:
    table = make_table(console, "class", "new answer", "which is", "flips", left=("new answer", "which is"))
    for row in rows:
        kind = "a new class" if row.new_class else "an old class"
        table.add_row(words(row.label), words(row.answer), kind, f"{row.flips:,}")
    return table


def _heading(what: str, limit: int = 0, total: int = 0) -> Text:
    more = f" ({limit} of {total:,}; --rows 0 shows all)" if 0 < limit < total else ""
    return Text(f"\n{what}{more}", style="bold")


def _classes_known(classes: int | None) -> str:
    return "" if classes is None else f" ({classes:,} classes)"
