"""Make the page of a split, to look at before training: its tables, and a few pictures of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mptctl.data.split import Split
from mptctl.data.split_summary import SplitSummary
from mptctl.errors import DataError
from mptctl.report.documents.class_names import class_name
from mptctl.report.documents.split import split_document
from mptctl.report.media.page import render_document
from mptctl.report.media.pictures import data_url
from mptctl.report.media.provenance import provenance

# Pictures of a class, classes with pictures, and pixels of a picture's longest side: a page has about 2 MB.
PER_CLASS, CLASSES, SIDE = 4, 100, 96


class ShownClass(NamedTuple):
    """A class of the page: its name, its training pictures in words, and (data URL, id) of some of them."""

    name: str
    counts: str
    pictures: list[tuple[str, str]]


def split_page(split: Split, summary: SplitSummary, argv: Sequence[str]) -> str:
    """Return the HTML page of a split.

    Args:
        split: its pictures are read.
        summary: of the split.
        argv: of the command, its program first.
    """
    return render_document(
        split_document(summary),
        provenance(argv, {}),
        "split",
        shown=_shown_classes(split, summary),
        left_out=max(0, len(summary.by_class) - CLASSES),
    )


def _shown_classes(split: Split, summary: SplitSummary) -> list[ShownClass]:
    """Classes with a few training pictures each, largest first.

    Of more than `CLASSES` classes, half are the largest and half the smallest ones.
    """
    order = sorted(range(len(summary.by_class)), key=lambda label: -summary.by_class[label].train)
    if len(order) > CLASSES:
        order = [*order[: CLASSES // 2], *order[-CLASSES // 2 :]]
    # Training rows sorted by class; those of class i are by_label[starts[i] : starts[i + 1]].
    training = split.indices("train")
    by_label = training[np.argsort(split.labels[training], kind="stable")]
    starts = np.searchsorted(split.labels[by_label], np.arange(len(summary.by_class) + 1))
    return [
        ShownClass(
            name=class_name(summary.class_labels or {}, summary.by_class[label].label),
            counts=f"{summary.by_class[label].train:,} for training",
            pictures=_pictures(split, by_label[starts[label] : starts[label + 1]].tolist()),
        )
        for label in order
    ]


def _pictures(split: Split, rows: list[int]) -> list[tuple[str, str]]:
    """Up to `PER_CLASS` pictures at even steps through rows of the split, as (data URL, id).

    A picture that cannot be read is left out.
    """
    pictures = []
    for place in np.linspace(0, len(rows) - 1, min(PER_CLASS, len(rows))).astype(int).tolist():
        try:
            url = data_url(split.picture(rows[place]), SIDE, "JPEG")
        except DataError:
            continue
        pictures.append((url, str(split.ids(np.array([rows[place]]))[0])))
    return pictures
