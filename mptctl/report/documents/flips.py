"""A flip report in a terminal: one screen of it, or all tables; the verdict is the last line."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.files.explained import shown
from mptctl.names import SortKey
from mptctl.report.documents.flip_tables import (
    causes_table,
    cells_table,
    classes_table,
    models_table,
    pairs_table,
    rates_table,
    slices_table,
)
from mptctl.report.documents.wording import sentences_beside_line, sort_classes, verdict, verdict_line
from mptctl.report.media.document import TONES, Document, Note, Table, notes
from mptctl.report.media.numbers import of_count
from mptctl.report.media.terminal import fitted_table, print_parts

# Rows of a list of all tables where no --rows says, of slices on one screen, and classes that are named in a
# sentence.
FULL_ROWS, SLICE_ROWS, CLASSES = 10, 5, 3
# Lines that a screen needs for more than the tables: the command, the verdict below a blank line, and the
# next prompt.
BESIDE = 4
# Fewest lines for which a list of classes is begun.
LEAST_LINES = 6
# Old confidence from which a prediction counts as sure.
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
    if full or rows is not None:
        print_parts(flips_document(report, sort, FULL_ROWS if rows is None else rows).parts, console)
    else:
        _print_screen(report, console, sort)


def flips_document(report: FlipReport, sort: SortKey = "flips", rows: int = FULL_ROWS) -> Document:
    """All tables of a comparison.

    Args:
        report: the comparison.
        sort: column that orders the classes.
        rows: most rows of each list; 0: all.
    """
    slices = slices_table(report, report.slices[: rows or None], len(report.slices))
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    tables = [
        causes_table(report),
        slices,
        classes_table(classes[: rows or None], len(classes)) if classes else None,
        pairs_table(report, report.pairs[: rows or None], len(report.pairs)) if report.pairs else None,
    ]
    return Document(
        [
            *_names(report),
            *notes(verdict(report).sentences),
            cells_table(report),
            rates_table(report, macro=True),
            models_table(report),
            *notes([*_flip_sentences(report), *_confidence_sentence(report)]),
            *(table for table in tables if table is not None),
            Note("How intervals and verdicts are computed: docs/statistics.md", "quiet"),
            Note(""),
            _last_line(report),
        ]
    )


def _print_screen(report: FlipReport, console: Console, sort: SortKey) -> None:
    """Print what a person looks at first; the classes that lost most where a taller terminal has room."""
    cells = cells_table(report)
    flips = _flip_sentences(report)
    said = [*sentences_beside_line(report), *flips[:1]]
    said[-1] += " --full shows all tables."
    parts: list[Note | Table] = [
        rates_table(report),
        *notes([*said, *flips[1:]]),
    ]
    if slices := slices_table(report, report.slices[:SLICE_ROWS], len(report.slices)):
        parts.append(slices)
    with console.capture() as screen:
        print_parts([*_names(report), Note(cells.title, "strong")], console)
        console.print(
            _beside(
                fitted_table(cells, console),
                fitted_table(models_table(report, calibration=False), console),
                console,
            )
        )
        console.print()
        print_parts(parts, console)
    console.print(Text.from_ansi(screen.get().rstrip("\n")), soft_wrap=True)
    classes = [row for row in sort_classes(report.per_class, sort) if row.negative_flips]
    used = screen.get().count("\n") + 1 + BESIDE
    room = console.height - used - LEAST_LINES if console.is_terminal else 0
    if classes and room > 0:
        console.print()
        print_parts([classes_table(classes[:room], len(classes))], console)
    print_parts([Note(""), _last_line(report)], console)


def _names(report: FlipReport) -> list[Note]:
    """Both models by name, and what is to be known of them."""
    return [
        *(
            Note(f"{role}  {model.name}{_classes_known(model.classes)}")
            for role, model in (("old", report.old), ("new", report.new))
        ),
        *notes([f"Note: {warning}." for warning in report.warnings], "doubt"),
    ]


def _last_line(report: FlipReport) -> Note:
    return Note(verdict_line(report), TONES[verdict(report).state], whole=True)


def _beside(left: RenderableType, right: RenderableType, console: Console) -> RenderableType:
    """Two tables next to each other, or one below the other."""
    sizes = [Measurement.get(console, console.options, table).maximum for table in (left, right)]
    if sum(sizes) + 4 > console.width:
        return Group(left, Text(), right)
    return Columns([left, right], padding=(0, 4))


def _flip_sentences(report: FlipReport) -> list[str]:
    """Sentences on the classes that flips went to, and those that they came from."""
    found = []
    went = report.destinations
    if flips := report.counts.negative_flips:
        found.append(
            f"Of {flips:,} {'flip' if flips == 1 else 'flips'}, {went.to_old_class.count:,} went to old "
            f"classes and {went.to_new_class.count:,} to new ones."
        )
        classes = [row for row in report.per_class if row.negative_flips]
        most = some((f"{shown(row.label)}: {of_count(row.nfr)}" for row in classes), CLASSES, "; ")
        found.append(f"By class: {most}.")
    return found


def _confidence_sentence(report: FlipReport) -> list[str]:
    """The number of the old model's surest predictions that flipped; empty where it was sure of none."""
    sure = [row for row in report.by_confidence or () if row.low >= SURE]
    of = sum(row.flips.of for row in sure)
    if not of:
        return []
    flipped = sum(row.flips.count for row in sure)
    predictions = "prediction" if of == 1 else "predictions"
    return [f"Of {of:,} right {predictions} of OLD with confidence {SURE:g} or more, {flipped:,} flipped."]


def _classes_known(classes: int | None) -> str:
    return "" if classes is None else f" ({classes:,} {'class' if classes == 1 else 'classes'})"
