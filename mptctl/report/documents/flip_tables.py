"""Make the tables of a flip report, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mptctl.evaluation.flip_report import (
    ClassRow,
    FlipReport,
    ModelSummary,
    PairRow,
    SliceRow,
    WrongAnswerRow,
)
from mptctl.evaluation.slices.source import slice_name
from mptctl.report.documents.wording import slices_sentence
from mptctl.report.media.document import Cell, Column, Row, Table
from mptctl.report.media.numbers import format_count, format_interval, percent, q_value


def rates_table(report: FlipReport, *, macro: bool = False) -> Table:
    """The flip rates with intervals and counts, over test samples of the old classes.

    Args:
        report: the comparison.
        macro: add a row for the mean over classes, right under that of NFR.
    """
    columns = [
        Column("rate"),
        Column("meaning", words=True),
        Column("value"),
        Column("95 % interval"),
        Column("count"),
    ]
    rows = [
        [words.title, words.meaning, percent(rate.value), format_interval(rate.ci95), format_count(rate)]
        for words, rate in report.rates.worded()
    ]
    if macro:
        mean = report.macro_nfr
        macro_row = [
            "macro NFR",
            "mean over old classes",
            percent(mean.value),
            format_interval(mean.ci95),
            "",
        ]
        rows.insert(1, macro_row)  # NFR is the first row
    return Table(columns, rows, name="Rates", ruled=False)


class ModelRow(NamedTuple):
    """An error or a calibration error of both models, as text in percent."""

    title: str
    old: str
    new: str


def error_rows(report: FlipReport) -> list[ModelRow]:
    """Errors of both models on old, new and all classes.

    Errors on new and on all classes are ``n/a`` for a model that knows none of the new classes.
    """
    old, new = report.old, report.new
    return [
        ModelRow("error, old classes", percent(old.er_old_classes), percent(new.er_old_classes)),
        ModelRow(
            "error, new classes",
            _percent_if_known(old, old.er_new_classes),
            _percent_if_known(new, new.er_new_classes),
        ),
        ModelRow(
            "error, all classes", _percent_if_known(old, old.er_all), _percent_if_known(new, new.er_all)
        ),
    ]


def _percent_if_known(model: ModelSummary, error: float | None) -> str:
    """An error that counts new classes, in percent; ``n/a`` where the model knows none of those tested."""
    return percent(None if model.knows_new is False and model.errors.new_classes.of else error)


def models_table(report: FlipReport, *, calibration: bool = True) -> Table:
    """Errors of both models and, if `calibration` is true, their calibration errors."""
    rows = error_rows(report)
    if calibration:
        rows += [
            ModelRow("ECE, classes it knows", percent(report.old.ece), percent(report.new.ece)),
            ModelRow("AECE, classes it knows", percent(report.old.aece), percent(report.new.aece)),
        ]
    columns = [Column("model"), Column("old"), Column("new")]
    return Table(columns, rows, name="Both models", ruled=False)


def counts_table(report: FlipReport) -> Table:
    """Samples of old classes by whether the old and the new model are right: two rows, two columns."""
    counts = report.counts
    samples = "sample" if report.n_old == 1 else "samples"
    return Table(
        [Column(""), Column("new right"), Column("new wrong")],
        [
            ["old right", f"{counts.both_right:,}", Cell(f"{counts.negative_flips:,}", tone="bad")],
            ["old wrong", Cell(f"{counts.positive_flips:,}", tone="good"), f"{counts.both_wrong:,}"],
        ],
        title=f"{report.n_old:,} test {samples} of old classes",
        ruled=False,
    )


def slices_table(report: FlipReport, rows: Sequence[SliceRow], total: int = 0) -> Table | None:
    """The flips of each slice of the test set; None where the report has no slices, not even small ones.

    Args:
        report: the comparison.
        rows: slices to show, lowest q first.
        total: number of slices in the report, where `rows` may be only the first; 0: `rows` are all.
    """
    if not report.slices and not report.small_slices:
        return None
    columns = [
        Column("slice"),
        Column("flips"),
        Column("NFR"),
        Column("95 % interval"),
        Column("lost"),
        Column("q"),
        Column("is", words=True),
    ]
    cells: list[Row] = [
        [
            slice_name(row.by),
            Cell(f"{row.negative_flips:,} / {row.n:,}", sort=row.negative_flips),
            Cell(percent(row.nfr), sort=row.nfr),
            Cell(format_interval(row.nfr_ci95), sort=row.nfr_ci95[1]),
            Cell(percent(row.lost), sort=-1 if row.lost is None else row.lost),
            Cell(q_value(row.q), sort=row.q),
            Cell("worse" if row.worse else "", tone="bad"),
        ]
        for row in rows
    ]
    return Table(columns, cells, "Slices, lowest q first", sentence=slices_sentence(report), total=total)


def classes_table(rows: Sequence[ClassRow], total: int = 0) -> Table:
    """The flips of each old class, and the prediction that most of them went to.

    Args:
        rows: classes to show, worst first.
        total: number of classes, where `rows` may be only the first; 0: `rows` are all.
    """
    columns = [
        Column("class"),
        Column("flips"),
        Column("NFR"),
        Column("95 % interval"),
        Column("error of OLD"),
        Column("error of NEW"),
        Column("mostly to", words=True),
    ]
    cells: list[Row] = [
        [
            row.label,
            Cell(format_count(row.nfr), sort=row.negative_flips),
            Cell(percent(row.nfr.value), sort=row.nfr.value),
            Cell(format_interval(row.nfr.ci95), sort=row.nfr.ci95[1] if row.nfr.ci95 else None),
            Cell(percent(row.er_old), sort=row.er_old),
            Cell(percent(row.er_new), sort=row.er_new),
            row.taken_by or "",
        ]
        for row in rows
    ]
    return Table(columns, cells, "Old classes, worst first", total=total)


def pairs_table(report: FlipReport, rows: Sequence[PairRow], total: int = 0) -> Table:
    """The flips from each class to each wrong prediction; the title counts the pairs that are not listed.

    Args:
        report: the comparison.
        rows: pairs to show, most flips first.
        total: number of pairs in the report, where `rows` may be only the first; 0: `rows` are all.
    """
    columns = [
        Column("class"),
        Column("prediction", words=True),
        Column("which is", words=True),
        Column("flips"),
    ]
    cells = [[row.label, row.answer, *_kind_and_flips(row)] for row in rows]
    more = report.more_pairs
    unlisted = f"; {more.pairs:,} further pairs, {more.flips:,} flips, are not listed" if more.pairs else ""
    return Table(columns, cells, f"From class to prediction, most first{unlisted}", total=total)


def takers_table(rows: Sequence[WrongAnswerRow], total: int = 0) -> Table:
    """The flips that each wrong prediction took from all classes.

    Args:
        rows: predictions to show, most flips first.
        total: number of predictions, where `rows` may be only the first; 0: `rows` are all.
    """
    columns = [Column("prediction"), Column("which is", words=True), Column("flips")]
    cells = [[row.answer, *_kind_and_flips(row)] for row in rows]
    return Table(columns, cells, "Predictions that took flips", total=total)


def _kind_and_flips(row: PairRow | WrongAnswerRow) -> Row:
    """Two cells: whether the prediction is an old or a new class, and its flips."""
    kind = "a new class" if row.new_class else "an old class"
    return [kind, Cell(f"{row.flips:,}", sort=row.flips)]
