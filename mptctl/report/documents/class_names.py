"""Names of classes for people: beside the id, where the split has names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mptctl.evaluation.flip_report import FlippedSample, FlipReport

# The column of `--by class`.
CLASS = "class"


def class_name(labels: Mapping[str, str], label: str) -> str:
    """``tailed frog (n01644900)``; the id alone where it has no name.

    Args:
        labels: names by id.
        label: the id.
    """
    return f"{labels[label]} ({label})" if label in labels else label


def for_people(report: FlipReport) -> FlipReport:
    """The comparison with names beside ids, for every form but JSON and predictions."""
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
        "worst_flips": flips_for_people(report.worst_flips, labels),
        "slices": [row.model_copy(update={"by": _by(row.by, labels)}) for row in report.slices],
    }
    return report.model_copy(update={**lists, "class_labels": {}})


def flips_for_people(flips: Sequence[FlippedSample], labels: Mapping[str, str]) -> list[FlippedSample]:
    """Flipped samples with names beside the ids of classes."""
    return [
        flip.model_copy(
            update={
                "label": class_name(labels, flip.label),
                "answer": class_name(labels, flip.answer),
                "by": _by(flip.by, labels),
            }
        )
        for flip in flips
    ]


def _by(values: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    return {key: class_name(labels, value) if key == CLASS else value for key, value in values.items()}
