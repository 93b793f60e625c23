"""The flips of a page as compact data, which its script makes rows of when they are asked for."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from mptctl.evaluation.flip_report import FlippedSample, FlipReport
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, as_cell
from mptctl.evaluation.slices.source import slice_name

# Flips that a page lists, each with its own link: ten times as many would open more slowly than in two
# seconds.
MOST_FLIPS = 100_000
# Rows that stand in the page itself, for readers without scripts; pictures come with these alone.
FIRST_ROWS = 24


def flip_list(report: FlipReport, flips: Sequence[FlippedSample]) -> dict[str, Any]:
    """Flips column by column, names once each.

    Args:
        report: the comparison; its slices are those that can be chosen.
        flips: N of them, in their order.

    Returns:
        `ids`; `names`; `label` and `answer`, places in `names`; `fresh`, the names that the old model does
        not know; `old` and `new`, confidences in whole percent or null; `causes` and `cause`, places in it or
        -1; `slices`, and of each crossing of columns in `keys` the place of each flip's slice or -1;
        `waived`, places of flips.
    """
    names: dict[str, int] = {}
    causes: dict[str, int] = {}
    label = [names.setdefault(flip.label, len(names)) for flip in flips]
    answer = [names.setdefault(flip.answer, len(names)) for flip in flips]
    keys: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    for place, row in enumerate(report.slices):
        keys.setdefault(tuple(row.by), {})[tuple(row.by.values())] = place
    return {
        "ids": [flip.id for flip in flips],
        "names": list(names),
        "label": label,
        "answer": answer,
        "fresh": sorted({names[flip.answer] for flip in flips if flip.new_class}),
        "old": [_percent(flip.old_confidence) for flip in flips],
        "new": [_percent(flip.new_confidence) for flip in flips],
        "cause": [-1 if flip.cause is None else causes.setdefault(flip.cause, len(causes)) for flip in flips],
        "causes": list(causes),
        "slices": [slice_name(row.by) for row in report.slices],
        "keys": [
            [places.get(tuple(flip.by.get(column, "") for column in key), -1) for flip in flips]
            for key, places in keys.items()
        ],
        "waived": [place for place, flip in enumerate(flips) if flip.waived],
    }


def flips_csv(flips: Sequence[FlippedSample]) -> str:
    """A table of flips, a line each, with what the gate file says and the columns of --by; n/a is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    by = list(dict.fromkeys(column for flip in flips for column in flip.by))
    writer.writerow([*FLIP_COLUMNS, "waived", "must_keep", *map(as_cell, by)])
    for flip in flips:
        names = map(as_cell, (flip.id, flip.label, flip.label, flip.answer))
        found = (flip.old_confidence, flip.new_confidence, flip.cause)
        said = (str(each).lower() for each in (flip.waived, flip.must_keep))
        values = (as_cell(flip.by.get(column, "")) for column in by)
        writer.writerow([*names, str(flip.new_class).lower(), *found, *said, *values])
    return out.getvalue()


def order_sentence(flips: Sequence[FlippedSample]) -> str:
    """The order of the flips, which `evaluation.flips.worst_flips` makes."""
    if not flips:
        return ""
    known = [
        whose
        for whose, confidence in (
            ("the old model's confidence in the right prediction", flips[0].old_confidence),
            ("the new model's confidence in the wrong one", flips[0].new_confidence),
        )
        if confidence is not None
    ]
    if not known:
        return "Order: by id, since neither model gave logits that would say how sure it was."
    by = f"the sum of {' and '.join(known)}" if len(known) > 1 else known[0]
    return f"Order: by {by}, highest first, so that the surest mistakes lead; equal ones by id."


def _percent(confidence: float | None) -> int | None:
    # As `wording.percent` rounds it.
    return None if confidence is None else int(f"{100 * confidence:.0f}")
