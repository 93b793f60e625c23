"""Make the document of a split: its classes, the pictures in each part, and notes."""

from __future__ import annotations

from mptctl.data.split_summary import ClassCounts, SplitSummary, list_identical
from mptctl.errors import some
from mptctl.names import Part
from mptctl.report.documents.class_names import class_name
from mptctl.report.media.document import ON_PAGE, ON_SCREEN, Column, Document, Medium, Note, Table, notes
from mptctl.report.media.numbers import counted

# Classes that a sentence names; the table of classes has so many of the largest and of the smallest ones.
SHOWN_CLASSES = 5
# Imbalance (largest over smallest class) from which on classes are shown one by one.
UNEVEN = 1.05


def split_document(summary: SplitSummary) -> Document:
    """The document of a split: path, classes, a row for each part, pictures left out, and the fingerprint.

    Where classes differ in size, a terminal has a table of the largest and the smallest ones too; a page has
    a table of all.
    """
    title = f"{summary.source}, {summary.num_old} old and {summary.num_new} new classes"
    kept = ", kept as it was" if summary.kept else ""
    names_of_classes = [
        *_names_sentence("old", summary.old_classes, summary),
        *_names_sentence("new", summary.new_classes, summary),
    ]
    sentences = [*_classes_sentence(summary), *_sizes_sentence(summary), *_unusable_sentence(summary)]
    is_uneven = summary.imbalance >= UNEVEN
    return Document(
        [
            Note(f"{summary.path}{kept}: {title}", whole=True, media=ON_SCREEN),
            *(Note(text, whole=True) for text in names_of_classes),
            _parts_table(summary),
            *([_class_table(summary, SHOWN_CLASSES, ON_SCREEN)] if is_uneven else []),
            _class_table(summary, None, ON_PAGE),
            *_identical_table(summary),
            *notes([*sentences, *summary.notes]),
            Note(f"fingerprint {summary.fingerprint}", whole=True),
        ],
        title=title,
        subject=summary.path,
    )


def _parts_table(summary: SplitSummary) -> Table[Part]:
    """The pictures of old and new classes in each part."""
    return Table(
        list(summary.parts),
        [
            Column("pictures", str),
            Column("old classes", lambda part: f"{summary.parts[part].old:,}"),
            Column("new classes", lambda part: f"{summary.parts[part].new:,}"),
            Column("all", lambda part: f"{summary.parts[part].all:,}"),
        ],
        name="Pictures in each part",
    )


def _class_table(
    summary: SplitSummary, of_each_end: int | None, media: frozenset[Medium]
) -> Table[ClassCounts]:
    """The pictures of each class in each part, the class with the most training pictures first.

    Args:
        summary: of the split.
        of_each_end: show only this many of the largest and as many of the smallest classes, where there are
            more; None: all.
        media: that show the table.
    """
    ordered = sorted(summary.by_class, key=lambda each: -each.train)
    shown = ordered
    if of_each_end is not None and len(ordered) > 2 * of_each_end:
        shown = [*ordered[:of_each_end], *ordered[-of_each_end:]]
    left_out = len(ordered) - len(shown)
    return Table(
        shown,
        [
            Column("class", lambda row: class_name(summary.class_labels or {}, row.label), words=True),
            Column("train", lambda row: f"{row.train:,}"),
            Column("val", lambda row: f"{row.val:,}"),
            Column("test", lambda row: f"{row.test:,}"),
        ],
        title="Pictures of each class",
        legend=f"{left_out:,} classes between these are not shown." if left_out else "",
        media=media,
    )


def _identical_table(summary: SplitSummary) -> list[Table[str]]:
    """The sets of identical pictures across parts or labels, for a page; none where there are none."""
    sets = list_identical(summary.duplicates)
    if not sets:
        return []
    title = "Identical pictures across parts or labels"
    return [Table(sets, [Column[str]("set", str, words=True)], title=title, media=ON_PAGE)]


def _names_sentence(age: str, classes: list[str], summary: SplitSummary) -> list[str]:
    """The names of the first old or new classes; none where there are no such classes."""
    names = [class_name(summary.class_labels or {}, name) for name in classes]
    return [f"{age}: {some(names, SHOWN_CLASSES)}"] if names else []


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


def _unusable_sentence(summary: SplitSummary) -> list[str]:
    """A sentence on the pictures that are kept out though no duplicates; none where there are none."""
    duplicates = summary.duplicates.kept_out if summary.duplicates else 0
    unusable = len(summary.quarantined) - duplicates
    return [f"kept out: {counted(unusable, 'picture', 'pictures')} that cannot be used"] if unusable else []


def _size(width: int, height: int) -> str:
    return f"{width:,} x {height:,}"
