"""Make the page of a split, to look at before training: its tables, and a few pictures of each class."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class ShownPicture(NamedTuple):
    """A picture of the page, as a data URL, and its id."""

    url: str
    id: str


class ShownClass(NamedTuple):
    """A class of the page: its name, its training pictures in words, and some of them."""

    name: str
    counts: str
    pictures: list[ShownPicture]


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
    labels = sorted(range(len(summary.by_class)), key=lambda label: -summary.by_class[label].train)
    if len(labels) > CLASSES:
        labels = [*labels[: CLASSES // 2], *labels[-CLASSES // 2 :]]
    training = split.indices("train")
    training_labels = split.labels[training]
    return [
        ShownClass(
            name=class_name(summary.class_labels or {}, summary.by_class[label].label),
            counts=f"{summary.by_class[label].train:,} for training",
            pictures=_pictures(split, training[training_labels == label]),
        )
        for label in labels
    ]


def _pictures(split: Split, rows: NDArray[np.int64]) -> list[ShownPicture]:
    """Up to `PER_CLASS` pictures at even steps through (n,) rows of the split.

    A picture that cannot be read is left out.
    """
    steps = np.linspace(0, len(rows) - 1, min(PER_CLASS, len(rows))).astype(int)
    pictures = []
    for row in rows[steps].tolist():
        with suppress(DataError):
            url = data_url(split.picture(row), SIDE, "JPEG")
            pictures.append(ShownPicture(url, str(split.ids(np.array([row]))[0])))
    return pictures
