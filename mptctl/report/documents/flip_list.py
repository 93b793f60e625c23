"""Write flips as compact data, from which the script of a page makes rows, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from mptctl.evaluation.flip_report import FlippedSample
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, as_cell

# Flips that a page lists at most; a page with ten times as many takes more than two seconds to open.
MOST_FLIPS = 100_000
# Rows that are part of the page itself, for readers without scripts; only these have pictures.
FIRST_ROWS = 24


def flip_list(flips: Sequence[FlippedSample]) -> dict[str, Any]:
    """Flips as plain data, a list for each column, with each name written once.

    Args:
        flips: n of them, in the order of the page.

    Returns:
        Lists, of n items unless said otherwise:
        `ids`; `label` and `answer`, as indices of `names`; `old` and `new`, confidences in whole percent or
        None; `names`, each different one once; `fresh`, the indices of names of classes that the old model
        does not know; `waived`, the indices of flips that are waived.
    """
    names = list(dict.fromkeys([*(flip.label for flip in flips), *(flip.answer for flip in flips)]))
    index = {name: i for i, name in enumerate(names)}
    return {
        "ids": [flip.id for flip in flips],
        "names": names,
        "label": [index[flip.label] for flip in flips],
        "answer": [index[flip.answer] for flip in flips],
        "fresh": sorted({index[flip.answer] for flip in flips if flip.new_class}),
        "old": [_percent(flip.old_confidence) for flip in flips],
        "new": [_percent(flip.new_confidence) for flip in flips],
        "waived": [i for i, flip in enumerate(flips) if flip.waived],
    }


def flips_csv(flips: Sequence[FlippedSample]) -> str:
    """Return flips as CSV, a line each, with the columns of ``--by`` last.

    Empty cells stand for what is not known; text is escaped so that a spreadsheet runs none of it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    slice_columns = list(dict.fromkeys(column for flip in flips for column in flip.by))
    writer.writerow([*FLIP_COLUMNS, "waived", "must_keep", *map(as_cell, slice_columns)])
    for flip in flips:
        cells = [
            as_cell(flip.id),
            as_cell(flip.label),
            as_cell(flip.label),  # the old model's prediction: a flip was right before
            as_cell(flip.answer),
            str(flip.new_class).lower(),
            flip.old_confidence,
            flip.new_confidence,
            str(flip.waived).lower(),
            str(flip.must_keep).lower(),
        ]
        writer.writerow([*cells, *(as_cell(flip.by.get(column, "")) for column in slice_columns)])
    return out.getvalue()


def _percent(confidence: float | None) -> int | None:
    """A confidence in whole percent, rounded as `numbers.percent` rounds."""
    return None if confidence is None else int(f"{100 * confidence:.0f}")
