"""Put readable names of classes beside their ids, where the split has names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mptctl.evaluation.flip_report import FlipReport
from mptctl.files import Model

# Name of the column by which `--by class` makes slices.
CLASS = "class"
# Fields of rows that hold a class.
NAMED = ("label", "answer", "taken_by")
Row = TypeVar("Row", bound=Model)


def class_name(labels: Mapping[str, str], label: str) -> str:
    """A class by name and id, such as ``tailed frog (n01644900)``; the id alone where it has no name.

    Args:
        labels: names by id.
        label: the id.
    """
    return f"{labels[label]} ({label})" if label in labels else label


def with_class_names(report: FlipReport) -> FlipReport:
    """A comparison with names beside ids in its lists of classes, flips and slices, and no `class_labels`.

    Without class labels the comparison itself. Names are for readers; JSON and predictions have ids alone.
    """
    if not report.class_labels:
        return report
    lists = ("per_class", "pairs", "worst_flips", "slices")
    named = {each: rows_with_class_names(getattr(report, each), report.class_labels) for each in lists}
    return report.model_copy(update={**named, "class_labels": {}})


def rows_with_class_names(rows: Sequence[Row], labels: Mapping[str, str]) -> list[Row]:
    """Copies of rows with names beside the ids of classes, also in the values of slices."""
    if not labels:
        return list(rows)
    copies = []
    for row in rows:
        changed: dict[str, object] = {}
        for field in NAMED:
            label = getattr(row, field, None)
            if label is not None:
                changed[field] = class_name(labels, label)
        by: Mapping[str, str] = getattr(row, "by", {})
        if CLASS in by:
            changed["by"] = {**by, CLASS: class_name(labels, by[CLASS])}
        copies.append(row.model_copy(update=changed))
    return copies
