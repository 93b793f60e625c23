"""The summary of a split as a document: its classes, pictures in each part, and what is to be known of it."""

from __future__ import annotations

from mptctl.data.split_summary import SplitSummary
from mptctl.errors import some
from mptctl.report.documents.class_names import class_name
from mptctl.report.media.document import Column, Document, Note, Table, notes

# Classes that are named one by one.
SHOWN_CLASSES = 5


def split_document(summary: SplitSummary) -> Document:
    """The path of the split, its classes, a row for each part, pictures kept out, and the fingerprint."""
    kept = ", kept as it was" if summary.kept else ""
    said = [
        f"{summary.path}{kept}: {summary.source}, {summary.num_old} old and {summary.num_new} new classes"
    ]
    for label, names in (("old", summary.old_classes), ("new", summary.new_classes)):
        if names:
            people = [class_name(summary.class_labels or {}, name) for name in names]
            said.append(f"{label}: {some(people, SHOWN_CLASSES)}")
    rows = [
        [part, f"{counts.old:,}", f"{counts.new:,}", f"{counts.all:,}"]
        for part, counts in summary.parts.items()
    ]
    out = len(summary.quarantined)
    after = [f"kept out: {out:,} {'picture' if out == 1 else 'pictures'} that cannot be used"] if out else []
    titles = ("pictures", "old classes", "new classes", "all")
    return Document(
        [
            *(Note(text, whole=True) for text in said),
            Table([Column(title) for title in titles], rows),
            *notes([*after, *summary.notes]),
            Note(f"fingerprint {summary.fingerprint}", whole=True),
        ]
    )
