"""Make the tables of a flip report, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Sequence

from mptctl.evaluation.flip_report import ClassRow, FlipReport, ModelSummary, PairRow, SliceRow
from mptctl.evaluation.flips import MOST_PAIRS
from mptctl.evaluation.rates import Rate, Wording
from mptctl.evaluation.slices.source import slice_name
from mptctl.report.documents.wording import slices_sentence
from mptctl.report.media.document import Cell, Column, Medium, Table
from mptctl.report.media.numbers import counted, format_count, format_interval, percent, q_value

# Media that list pairs of classes, and those that print the four counts; a page has tiles of its own for
# them.
LISTING: frozenset[Medium] = frozenset(("terminal", "page"))
PRINTED: frozenset[Medium] = frozenset(("terminal", "markdown"))


def rates_table(report: FlipReport) -> Table[tuple[Wording, Rate]]:
    """The flip rates with intervals and counts, over test samples of the old classes."""
    return Table(
        report.rates.worded(),
        [
            Column("rate", lambda row: row[0].title),
            Column("meaning", lambda row: row[0].meaning, words=True),
            Column("value", lambda row: percent(row[1].value)),
            Column("95 % interval", lambda row: format_interval(row[1].ci95)),
            Column("count", lambda row: format_count(row[1])),
        ],
        name="Rates",
    )


def models_table(report: FlipReport) -> Table[str]:
    """Errors and calibration errors of both models, a row for each name of an error."""
    old_errors = _errors(report.old)
    new_errors = _errors(report.new)
    return Table(
        list(old_errors),
        [
            Column("model", str),
            Column("old", lambda name: percent(old_errors[name])),
            Column("new", lambda name: percent(new_errors[name])),
        ],
        name="Both models",
    )


def _errors(model: ModelSummary) -> dict[str, float | None]:
    """The errors and calibration errors of a model, by name."""
    return {
        "error, old classes": model.er_old_classes,
        "error, new classes": known_error(model, model.er_new_classes),
        "error, all classes": known_error(model, model.er_all),
        "ECE, classes it knows": model.ece,
        "AECE, classes it knows": model.aece,
    }


def known_error(model: ModelSummary, error: float | None) -> float | None:
    """An error that counts new classes; None where the model knows none of those tested."""
    knows_none = model.knows_new is False and model.errors.new_classes.of > 0
    return None if knows_none else error


def counts_table(report: FlipReport) -> Table[tuple[str, Cell, Cell]]:
    """Samples of old classes by whether the old and the new model are right: two rows, two columns."""
    counts = report.counts
    rows = [
        ("old right", Cell(f"{counts.both_right:,}"), Cell(f"{counts.negative_flips:,}", tone="bad")),
        ("old wrong", Cell(f"{counts.positive_flips:,}", tone="good"), Cell(f"{counts.both_wrong:,}")),
    ]
    return Table(
        rows,
        [
            Column("", lambda row: row[0]),
            Column("new right", lambda row: row[1]),
            Column("new wrong", lambda row: row[2]),
        ],
        title=f"{counted(report.n_old, 'test sample', 'test samples')} of old classes",
        media=PRINTED,
    )


def slices_table(report: FlipReport, end: int) -> Table[SliceRow]:
    """The flips of each slice of the test set, lowest q first, of which the first `end`."""
    return Table(
        report.slices[:end],
        [
            Column("slice", lambda row: slice_name(row.by)),
            Column("flips", lambda row: f"{row.negative_flips:,} / {row.n:,}"),
            Column("NFR", lambda row: percent(row.nfr)),
            Column("95 % interval", lambda row: format_interval(row.nfr_ci95)),
            Column("lost", lambda row: percent(row.lost)),
            Column("q", lambda row: q_value(row.q)),
            Column("is", lambda row: Cell("worse" if row.worse else "", tone="bad"), words=True),
        ],
        title="Slices, lowest q first",
        sentence=slices_sentence(report),
        total=len(report.slices),
        folded=True,
    )


def classes_table(rows: Sequence[ClassRow], end: int) -> Table[ClassRow]:
    """The flips of each old class, worst first, of which the first `end`; and where most of them went to."""
    return Table(
        rows[:end],
        [
            Column("class", lambda row: row.label),
            Column("flips", lambda row: format_count(row.nfr)),
            Column("NFR", lambda row: percent(row.nfr.value)),
            Column("95 % interval", lambda row: format_interval(row.nfr.ci95)),
            Column("error of OLD", lambda row: percent(row.er_old)),
            Column("error of NEW", lambda row: percent(row.er_new)),
            Column("mostly to", lambda row: row.taken_by or "", words=True),
        ],
        title="Old classes, worst first",
        total=len(rows),
        folded=True,
    )  # fmt: skip


def pairs_table(report: FlipReport, end: int) -> Table[PairRow]:
    """The flips from each class to each wrong prediction, most first, of which the first `end`.

    Where the report has no room for more pairs, the title says so: there may be others.
    """
    is_full = len(report.pairs) == MOST_PAIRS
    return Table(
        report.pairs[:end],
        [
            Column("class", lambda row: row.label),
            Column("prediction", lambda row: row.answer, words=True),
            Column("which is", lambda row: "a new class" if row.new_class else "an old class", words=True),
            Column("flips", lambda row: f"{row.flips:,}"),
        ],
        title=f"From class to prediction, {f'the {MOST_PAIRS:,} most frequent' if is_full else 'most first'}",
        total=len(report.pairs),
        media=LISTING,
    )
