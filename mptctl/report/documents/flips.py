"""Make the document of a comparison of two models; in a terminal the verdict is its last line."""

from __future__ import annotations

from typing import Any

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport, ModelSummary
from mptctl.evaluation.gate.history import verdict_of
from mptctl.files.explained import shown
from mptctl.report.documents.flip_tables import (
    classes_table,
    counts_table,
    known_error,
    models_table,
    pairs_table,
    rates_table,
    slices_table,
)
from mptctl.report.documents.wording import (
    sentences_beside_line,
    verdict_line,
    verdict_sentences,
    verdict_title,
)
from mptctl.report.media.document import ON_SCREEN, TONES, Document, Note, Table, notes
from mptctl.report.media.numbers import counted, of_count, percent

# Rows of each list, and of slices on one screen; classes that a sentence names.
FULL_ROWS, SLICE_ROWS, CLASSES = 10, 5, 4
FOOTER = (
    "A negative flip is a test sample that the old model got right and the new one gets wrong. Rates are "
    "over test samples of the old classes unless they say otherwise; intervals are exact (Clopper and "
    "Pearson), for Rel-NFR made of two with the level divided, for the change of error made of those of both "
    "kinds of flips; n/a is a rate whose denominator is zero, or that needs logits."
)


def flips_document(report: FlipReport, rows: int = FULL_ROWS) -> Document:
    """The document of a comparison with all its tables.

    Args:
        report: the comparison.
        rows: most rows of each list.
    """
    classes = [row for row in report.per_class if row.negative_flips]
    tables: list[Table[Any]] = [slices_table(report, rows)] if _has_slices(report) else []
    if classes:
        tables += [classes_table(classes, rows), pairs_table(report, rows)]
    return Document(
        [
            Note(_models(report), media=ON_SCREEN),
            *notes(verdict_sentences(report)),
            *_warnings(report),
            counts_table(report),
            rates_table(report),
            models_table(report),
            *notes(_flip_sentences(report), media=ON_SCREEN),
            *tables,
            *notes(["How intervals and verdicts are computed: docs/statistics.md"], "quiet", ON_SCREEN),
            *_last_line(report),
        ],
        title=verdict_title(report),
        subject=_models(report),
        state=verdict_of(report.gate),
        footer=FOOTER,
    )


def screen_document(report: FlipReport, *, can_type_flags: bool = True) -> Document:
    """The document of a comparison for one screen: rates, the main sentences, and the slices with lowest q.

    Args:
        report: the comparison.
        can_type_flags: the reader typed a command, and may be told of another flag.
    """
    old_error = percent(known_error(report.old, report.old.er_all))
    new_error = percent(known_error(report.new, report.new.er_all))
    hint = " --full shows all tables." if can_type_flags else ""
    sentences = [
        *sentences_beside_line(report),
        f"Error on all classes: {old_error} of OLD, {new_error} of NEW.{hint}",
        *_flip_sentences(report),
    ]
    return Document(
        [
            Note(_models(report)),
            *_warnings(report),
            counts_table(report),
            rates_table(report),
            *notes(sentences),
            *([slices_table(report, SLICE_ROWS)] if _has_slices(report) else []),
            *_last_line(report),
        ]
    )


def _has_slices(report: FlipReport) -> bool:
    return bool(report.slices or report.small_slices)


def _models(report: FlipReport) -> str:
    """The names of both models, with their numbers of classes where these are known."""

    def named(model: ModelSummary) -> str:
        if model.classes is None:
            return model.name
        return f"{model.name} ({counted(model.classes, 'class', 'classes')})"

    return f"old: {named(report.old)}, new: {named(report.new)}"


def _warnings(report: FlipReport) -> list[Note]:
    return notes([f"Note: {warning}." for warning in report.warnings], "doubt")


def _last_line(report: FlipReport) -> list[Note]:
    """The verdict line in the colour of its state, below an empty line."""
    tone = TONES[verdict_of(report.gate)]
    return [Note("", media=ON_SCREEN), Note(verdict_line(report), tone, whole=True, media=ON_SCREEN)]


def _flip_sentences(report: FlipReport) -> list[str]:
    """Two sentences, on the kinds of classes that flips went to and on the classes they came from.

    None without flips.
    """
    flips = report.counts.negative_flips
    if not flips:
        return []
    destinations = report.destinations
    classes = [row for row in report.per_class if row.negative_flips]
    worst = some([f"{shown(row.label)}: {of_count(row.nfr)}" for row in classes], CLASSES, "; ")
    return [
        f"Of {counted(flips, 'flip', 'flips')}, {destinations.to_old_class.count:,} went to old classes and "
        f"{destinations.to_new_class.count:,} to new ones.",
        f"By class: {worst}.",
    ]
