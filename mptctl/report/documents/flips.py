"""The comparison in a terminal: what fits on a screen, or all tables; the verdict in words is the last line."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.files.explained import shown
from mptctl.names import SortKey
from mptctl.report.documents.flips_tables import (
    causes_table,
    classes_table,
    heading,
    pairs_table,
    slices_table,
)
from mptctl.report.documents.verdict_line import verdict_line
from mptctl.report.documents.wording import (
    model_lines,
    rate_lines,
    sentences_beside_line,
    slices_sentence,
    sort_classes,
    verdict,
)
from mptctl.report.media.numbers import format_count, format_interval, of_count, percent
from mptctl.report.media.tables import make_table, say, words

STYLES = {"passed": "bold green", "failed": "bold red", "undecided": "bold yellow", "ungated": "bold"}
# Rows of a list of all tables where no --rows says, of slices on one screen, and classes that are named in a sentence.
FULL_ROWS, SLICE_ROWS, CLASSES = 10, 5, 3
# Lines that a screen needs for more than the tables: the command, what a failed gate says, and the next prompt.
BESIDE = 3
# Fewest lines for which a list of classes is begun.
LEAST_LINES = 6
# Old confidence from which an answer counts as sure.
SURE = 0.9


def print_report(
    report: FlipReport,
    console: Console,
    sort: SortKey = "flips",
    rows: int | None = None,
    *,
    full: bool = False,
) -> None:
    """Print a comparison.

    Args:
        report: the comparison.
        console: where; its width is kept to.
        sort: column that orders the classes.
        rows: most rows of each list; 0: all. Given, all lists are printed.
        full: print all tables, with their first rows where `rows` does not say.
    """
    every = full or rows is not None
    parts = _full(report, console, sort, rows) if every else _screen(report, console, sort)
    for part in parts:
        console.print(part)
    line = words(verdict_line(report), style=STYLES[verdict(report).state])
    say(line, console)


def _screen(report: FlipReport, console: Console, sort: SortKey) -> list[RenderableType]:
    """What a person looks at first; with the classes that lost most where a taller terminal has room for them."""
    parts: list[RenderableType] = [
        *_names(report),
        _samples(report),
        _beside(_cells(report, console), _errors(report, console), console),
        Text(),
        _rates(report, console),
        Text(),
        *(words(sentence) for sentence in sentences_beside_line(report)),
        *(words(sentence) for sentence in _flip_sentences(report)),
    ]
    if sentence := slices_sentence(report):
        parts.append(words(sentence))
        if report.slices:
            parts.append(slices_table(report.slices[:SLICE_ROWS], console))
    more = Text("--full shows classes, predictions, causes and calibration.", style="dim")
    used = len(console.render_lines(Group(*parts, more), pad=False)) + BESIDE
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    room = console.height - used - LEAST_LINES if console.is_terminal else 0
    if classes and room > 0:
        listed = classes_table(classes[:room], console)
        parts += [heading("Old classes, worst first", room, len(classes)), listed, Text()]
    return [*parts, more]


def _full(report: FlipReport, console: Console, sort: SortKey, rows: int | None) -> list[RenderableType]:
    rows = FULL_ROWS if rows is None else rows
    parts: list[RenderableType] = [
        *_names(report),
        Text(),
        *(words(sentence) for sentence in verdict(report).sentences),
        Text(),
        _samples(report),
        _cells(report, console),
        Text(),
        _rates(report, console),
        Text(),
        _errors(report, console, calibration=True),
        Text(),
        *(words(sentence) for sentence in (*_flip_sentences(report), *_confidence_sentence(report))),
    ]
    if table := causes_table(report, console):
        parts += [heading("Why they flipped"), table]
    if sentence := slices_sentence(report):
        parts += [heading("Slices, lowest q first", rows, len(report.slices)), words(sentence)]
        parts += [slices_table(report.slices[: rows or None], console)] * bool(report.slices)
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    if classes:
        listed = classes_table(classes[: rows or None], console)
        parts += [heading("Old classes, worst first", rows, len(classes)), listed]
    if report.pairs:
        pairs = pairs_table(report.pairs[: rows or None], console)
        what = "From class to prediction, most first"
        if more := report.more_pairs.pairs:
            what += f"; {more:,} further pairs, {report.more_pairs.flips:,} flips, are not listed"
        parts += [heading(what, rows, len(report.pairs)), pairs]
    parts.append(Text("How intervals and verdicts are computed: docs/statistics.md", style="dim"))
    return [*parts, Text()]


def _names(report: FlipReport) -> list[RenderableType]:
    models = (("old", report.old), ("new", report.new))
    return [
        *(words(f"{role}  {model.name}{_classes_known(model.classes)}") for role, model in models),
        *(words(f"Note: {warning}.", style="yellow") for warning in report.warnings),
    ]


def _samples(report: FlipReport) -> Text:
    return Text(
        f"{report.n_old:,} test {'sample' if report.n_old == 1 else 'samples'} of old classes", "bold"
    )


def _cells(report: FlipReport, console: Console) -> Table:
    counts = report.counts
    cells = make_table(console, "", "new right", "new wrong", ruled=False)
    cells.add_row("old right", f"{counts.both_right:,}", Text(f"{counts.negative_flips:,}", style="bold red"))
    cells.add_row("old wrong", Text(f"{counts.positive_flips:,}", style="green"), f"{counts.both_wrong:,}")
    return cells


def _rates(report: FlipReport, console: Console) -> Table:
    rates = make_table(
        console, "rate", "", "value", "95 % interval", "count", left=("",), spare=("",), ruled=False
    )
    for line in rate_lines(report):
        value, interval = percent(line.rate.value), format_interval(line.rate.ci95)
        rates.add_row(line.name, line.meaning, value, interval, format_count(line.rate))
    return rates


def _errors(report: FlipReport, console: Console, *, calibration: bool = False) -> Table:
    models = make_table(console, "model", "old", "new", ruled=False)
    for row in model_lines(report):
        if calibration or row.name.startswith("error"):
            models.add_row(row.name, row.old, row.new)
    return models


def _beside(left: Table, right: Table, console: Console) -> RenderableType:
    """Two tables next to each other, or one below the other."""
    sizes = [Measurement.get(console, console.options, table).maximum for table in (left, right)]
    if sum(sizes) + 4 > console.width:
        return Group(left, Text(), right)
    return Columns([left, right], padding=(0, 4))


def _flip_sentences(report: FlipReport) -> list[str]:
    """Where flips went, and from which classes they came."""
    found = []
    went = report.destinations
    if flips := report.counts.negative_flips:
        found.append(
            f"Of {flips:,} {'flip' if flips == 1 else 'flips'}, {went.to_old_class.count:,} went to old classes and "
            f"{went.to_new_class.count:,} to new ones."
        )
        classes = [row for row in report.per_class if row.negative_flips]
        most = some((f"{shown(row.label)}: {of_count(row.nfr)}" for row in classes), CLASSES, "; ")
        found.append(f"By class: {most}.")
    return found


def _confidence_sentence(report: FlipReport) -> list[str]:
    """How many of the old model's surest answers flipped; nothing where it was sure of none."""
    sure = [row for row in report.by_confidence or () if row.low >= SURE]
    of = sum(row.flips.of for row in sure)
    if not of:
        return []
    flipped = sum(row.flips.count for row in sure)
    predictions = "prediction" if of == 1 else "predictions"
    return [f"Of {of:,} right {predictions} of OLD with confidence {SURE:g} or more, {flipped:,} flipped."]


def _classes_known(classes: int | None) -> str:
    return "" if classes is None else f" ({classes:,} {'class' if classes == 1 else 'classes'})"
