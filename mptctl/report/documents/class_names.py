"""Put readable names of classes beside their ids, where the split has names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mptctl.evaluation.flip_report import FlippedSample, FlipReport

# Name of the column by which `--by class` makes slices.
CLASS = "class"


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
    labels = report.class_labels
    if not labels:
        return report

    def named(label: str | None) -> str | None:
        return None if label is None else class_name(labels, label)

    lists = {
        "per_class": [
            row.model_copy(update={"label": named(row.label), "taken_by": named(row.taken_by)})
            for row in report.per_class
        ],
        "pairs": [
            row.model_copy(update={"label": named(row.label), "answer": named(row.answer)})
            for row in report.pairs
        ],
        "takers": [row.model_copy(update={"answer": named(row.answer)}) for row in report.takers],
        "worst_flips": flips_with_class_names(report.worst_flips, labels),
        "slices": [row.model_copy(update={"by": _slice_values(row.by, labels)}) for row in report.slices],
    }
    return report.model_copy(update={**lists, "class_labels": {}})


def flips_with_class_names(flips: Sequence[FlippedSample], labels: Mapping[str, str]) -> list[FlippedSample]:
    """Copies of flipped samples with names beside the ids of classes."""
    return [
        flip.model_copy(
            update={
                "label": class_name(labels, flip.label),
                "answer": class_name(labels, flip.answer),
                "by": _slice_values(flip.by, labels),
            }
        )
        for flip in flips
    ]


def _slice_values(values: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The values of a slice by column, with a name beside the id in the column of classes."""
    return {key: class_name(labels, value) if key == CLASS else value for key, value in values.items()}
