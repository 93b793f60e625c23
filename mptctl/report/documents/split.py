"""Make the document of a split: its classes, the pictures in each part, and notes."""

from __future__ import annotations

from mptctl.data.split_summary import SplitSummary
from mptctl.errors import some
from mptctl.report.documents.class_names import class_name
from mptctl.report.media.document import Cell, Column, Document, Note, Table, notes

# Classes that a sentence names; the table of classes has so many of the largest and of the smallest ones.
SHOWN_CLASSES = 5
# Imbalance (largest over smallest class) from which on classes are shown one by one.
UNEVEN = 1.05


def split_document(summary: SplitSummary) -> Document:
    """The document of a split: path, classes, a row for each part, pictures left out, and the fingerprint.

    Where classes differ in size, it has a table of the largest and the smallest ones too.
    """
    kept = ", kept as it was" if summary.kept else ""
    head = [
        f"{summary.path}{kept}: {summary.source}, {summary.num_old} old and {summary.num_new} new classes"
    ]
    for label, names in (("old", summary.old_classes), ("new", summary.new_classes)):
        if names:
            readable = [class_name(summary.class_labels or {}, name) for name in names]
            head.append(f"{label}: {some(readable, SHOWN_CLASSES)}")
    rows = [
        [part, f"{counts.old:,}", f"{counts.new:,}", f"{counts.all:,}"]
        for part, counts in summary.parts.items()
    ]
    sentences = [*_classes_sentence(summary), *_sizes_sentence(summary)]
    duplicates_out = summary.duplicates.kept_out if summary.duplicates else 0
    unusable = len(summary.quarantined) - duplicates_out
    if unusable:
        pictures = "picture" if unusable == 1 else "pictures"
        sentences.append(f"kept out: {unusable:,} {pictures} that cannot be used")
    titles = ("pictures", "old classes", "new classes", "all")
    return Document(
        [
            *(Note(text, whole=True) for text in head),
            Table([Column(title) for title in titles], rows),
            *([class_table(summary, SHOWN_CLASSES)] if summary.imbalance >= UNEVEN else []),
            *notes([*sentences, *summary.notes]),
            Note(f"fingerprint {summary.fingerprint}", whole=True),
        ]
    )


def class_table(summary: SplitSummary, of_each_end: int | None = None) -> Table:
    """The pictures of each class in each part, the class with the most training pictures first.

    Args:
        summary: of the split.
        of_each_end: show only this many of the largest and as many of the smallest classes, where there are
            more; None: all.
    """
    ordered = sorted(summary.by_class, key=lambda each: -each.train)
    shown = ordered
    if of_each_end is not None and len(ordered) > 2 * of_each_end:
        shown = [*ordered[:of_each_end], *ordered[-of_each_end:]]
    rows: list[list[Cell | str]] = [
        [
            class_name(summary.class_labels or {}, each.label),
            *(Cell(f"{count:,}", sort=count) for count in (each.train, each.val, each.test)),
        ]
        for each in shown
    ]
    left_out = len(ordered) - len(shown)
    return Table(
        [Column("class", words=True), Column("train"), Column("val"), Column("test")],
        rows,
        title="Pictures of each class",
        legend=f"{left_out:,} classes between these are not shown." if left_out else "",
    )


def _classes_sentence(summary: SplitSummary) -> list[str]:
    """A sentence on the training pictures of the classes; none for a split without classes."""
    counts = [each.train for each in summary.by_class]
    if not counts:
        return []
    if summary.imbalance == 1:
        return [f"each class has {counts[0]:,} training pictures"]
    times = f", the largest {summary.imbalance:.3g} times the smallest" if summary.imbalance >= UNEVEN else ""
    return [f"a class has {min(counts):,} to {max(counts):,} training pictures{times}"]


def _sizes_sentence(summary: SplitSummary) -> list[str]:
    """A sentence on the sizes of pictures, in pixels; none where they are not known."""
    sizes = summary.sizes
    if sizes is None:
        return []
    if sizes.smallest == sizes.largest:
        return [f"sizes: {_size(*sizes.smallest)} each"]
    smallest, largest = _size(*sizes.smallest), _size(*sizes.largest)
    return [f"sizes: {smallest} to {largest}, half of them up to {_size(*sizes.median)}"]


def _size(width: int, height: int) -> str:
    return f"{width:,} x {height:,}"
