"""Print a flip report in a terminal: one screen of it, or all tables; the verdict is the last line."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

from mptctl.evaluation.flip_report import FlipReport
from mptctl.files.explained import shown
from mptctl.names import SortKey
from mptctl.report.documents.flip_tables import (
    classes_table,
    counts_table,
    models_table,
    pairs_table,
    rates_table,
    slices_table,
)
from mptctl.report.documents.wording import (
    sentences_beside_line,
    some_of_all,
    sort_classes,
    verdict,
    verdict_line,
)
from mptctl.report.media.document import TONES, Document, Note, Table, notes
from mptctl.report.media.numbers import of_count
from mptctl.report.media.terminal import print_parts, rich_table

# Rows of each list without --rows; slices on one screen; classes that a sentence names.
FULL_ROWS, SLICE_ROWS, CLASSES = 10, 5, 3
# Lines of a screen besides the tables: the command, the verdict below a blank line, and the next prompt.
BESIDE = 4
# Lines that stay free below a list of classes on one screen.
LEAST_LINES = 6
# Confidence of the old model from which a prediction counts as sure, 0 to 1.
SURE = 0.9


def print_report(
    report: FlipReport,
    console: Console,
    sort: SortKey = "flips",
    rows: int | None = None,
    *,
    full: bool = False,
    can_type_flags: bool = True,
) -> None:
    """Print a comparison: one screen, or all tables if `full` or `rows` is given.

    Args:
        report: the comparison.
        console: no line is wider than it.
        sort: column by which the classes are sorted.
        rows: most rows of each list; 0: all; None: `FULL_ROWS`.
        full: print all tables.
        can_type_flags: the reader typed a command, and may be told of another flag.
    """
    if full or rows is not None:
        print_parts(flips_document(report, sort, FULL_ROWS if rows is None else rows).parts, console)
    else:
        _print_screen(report, console, sort, " --full shows all tables." if can_type_flags else "")


def flips_document(report: FlipReport, sort: SortKey = "flips", rows: int = FULL_ROWS) -> Document:
    """The document of a comparison with all its tables; the verdict is its last line.

    Args:
        report: the comparison.
        sort: column by which the classes are sorted.
        rows: most rows of each list; 0: all.
    """
    end = rows or None  # of a list; None takes all its rows
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    tables = [
        slices_table(report, report.slices[:end], len(report.slices)),
        classes_table(classes[:end], len(classes)) if classes else None,
        pairs_table(report, report.pairs[:end], len(report.pairs)) if report.pairs else None,
    ]
    return Document(
        [
            *_head_notes(report),
            *notes(verdict(report).sentences),
            counts_table(report),
            rates_table(report, macro=True),
            models_table(report),
            *notes([*_flip_sentences(report), *_confidence_sentence(report)]),
            *(table for table in tables if table is not None),
            Note("How intervals and verdicts are computed: docs/statistics.md", "quiet"),
            Note(""),
            _last_line(report),
        ]
    )


def _print_screen(report: FlipReport, console: Console, sort: SortKey, hint: str) -> None:
    """Print the main tables and sentences and, as far as a terminal is tall enough, the worst classes.

    Args:
        report, console, sort: as for `print_report`.
        hint: on further tables; follows a sentence.
    """
    counts = counts_table(report)
    flip_sentences = _flip_sentences(report)
    sentences = [*sentences_beside_line(report), *flip_sentences[:1]]
    if hint:
        sentences = [*sentences[:-1], f"{sentences[-1]}{hint}"] if sentences else [hint.strip()]
    parts: list[Note | Table] = [rates_table(report), *notes([*sentences, *flip_sentences[1:]])]
    slices = slices_table(report, report.slices[:SLICE_ROWS], len(report.slices))
    if slices is not None:
        parts.append(slices)
    # Captured, to count the lines.
    with console.capture() as screen:
        print_parts([*_head_notes(report), Note(counts.title, "strong")], console)
        console.print(
            _side_by_side(
                rich_table(counts, console),
                rich_table(models_table(report, calibration=False), console),
                console,
            )
        )
        console.print()
        print_parts(parts, console)
    console.print(Text.from_ansi(screen.get().rstrip("\n")), soft_wrap=True)
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    used_lines = screen.get().count("\n") + 1 + BESIDE
    room = console.height - used_lines - LEAST_LINES if console.is_terminal else 0
    if classes and room > 0:
        console.print()
        print_parts([classes_table(classes[:room], len(classes))], console)
    print_parts([Note(""), _last_line(report)], console)


def _head_notes(report: FlipReport) -> list[Note]:
    """The names of both models with their number of classes, and the report's warnings."""
    return [
        Note(f"old  {report.old.name}{_class_count_words(report.old.classes)}"),
        Note(f"new  {report.new.name}{_class_count_words(report.new.classes)}"),
        *notes([f"Note: {warning}." for warning in report.warnings], "doubt"),
    ]


def _last_line(report: FlipReport) -> Note:
    """The verdict line in the colour of its state."""
    return Note(verdict_line(report), TONES[verdict(report).state], whole=True)


def _side_by_side(left: RenderableType, right: RenderableType, console: Console) -> RenderableType:
    """Two tables next to each other or, where the console is too narrow, one below the other."""
    widths = [Measurement.get(console, console.options, table).maximum for table in (left, right)]
    gap = 4
    if sum(widths) + gap > console.width:
        return Group(left, Text(), right)
    return Columns([left, right], padding=(0, gap))


def _flip_sentences(report: FlipReport) -> list[str]:
    """Two sentences, on the kinds of classes that flips went to and on the classes they came from.

    None without flips.
    """
    flips, destinations = report.counts.negative_flips, report.destinations
    if not flips:
        return []
    classes = [row for row in report.per_class if row.negative_flips]
    worst = some_of_all([f"{shown(row.label)}: {of_count(row.nfr)}" for row in classes], CLASSES)
    return [
        f"Of {flips:,} {'flip' if flips == 1 else 'flips'}, {destinations.to_old_class.count:,} went to old "
        f"classes and {destinations.to_new_class.count:,} to new ones.",
        f"By class: {worst}.",
    ]


def _confidence_sentence(report: FlipReport) -> list[str]:
    """A sentence on how many of the old model's surest right predictions flipped; none where it had none."""
    sure = [row for row in report.by_confidence or () if row.low >= SURE]
    total = sum(row.flips.of for row in sure)
    if not total:
        return []
    flipped = sum(row.flips.count for row in sure)
    predictions = "prediction" if total == 1 else "predictions"
    return [f"Of {total:,} right {predictions} of OLD with confidence {SURE:g} or more, {flipped:,} flipped."]


def _class_count_words(classes: int | None) -> str:
    """A number of classes in brackets, after a name; empty for None."""
    return "" if classes is None else f" ({classes:,} {'class' if classes == 1 else 'classes'})"
