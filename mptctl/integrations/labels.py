"""Few labels from Python: the rows on which two models differ, and what their labels say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mptctl.errors import UsageError, options_as_arguments
from mptctl.evaluation.labels.draw import Draw, Strata, read_traffic
from mptctl.evaluation.labels.label_file import match_labels, read_label_file, redraw, rows_of_mapping
from mptctl.evaluation.labels.report import (
    DisagreeReport,
    LabelledReport,
    report_disagreement,
    report_labels,
)
from mptctl.evaluation.limits import Limits, Looks
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.frames import is_frame
from mptctl.evaluation.reading.in_memory import InMemory
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.workspace import workspace
from mptctl.integrations.two_models import read_model, refuse_arguments_of_arrays

FRACTION = "give a fraction of the samples, such as 0.02"


@dataclass(frozen=True)
class LabelDraw:
    """Disagreements of two models in random order, to be labelled from the first one on.

    Attributes:
        report: how many predictions differ, where, and how many labels decide the limit.
        rows: the drawn rows, by the columns of the file that `mptctl disagree --out` writes.
    """

    report: DisagreeReport
    rows: list[dict[str, Any]]
    _draw: Draw

    def __repr__(self) -> str:
        return (
            f"<LabelDraw: {self.report.drawn.count:,} of {self.report.disagreements.count:,} disagreements>"
        )

    def evaluate(
        self,
        labels: Mapping[Any, Any] | str | Path,
        *,
        max_flip_rate: float | None = None,
        confidence: float = 0.95,
        looks: Looks = "once",
    ) -> LabelledReport:
        """Report what labels say of all traffic, as `mptctl evaluate --labels` does.

        Args:
            labels: by id, each a class, ``other`` or ``unsure``, of the first rows; or a labelled file.
            max_flip_rate: limit of negative flips per sample, a fraction, of the verdict in `gate`.
            confidence: level of the two-sided interval that decides the limit.
            looks: ``any``: the intervals may be looked at after every label.

        Raises:
            DataError: a label is of no drawn row or no class, a row has two, or the file is of another draw.
            UsageError: the limit or the confidence is out of range.
        """
        with options_as_arguments(), workspace():
            _require(
                max_flip_rate is None or 0 <= max_flip_rate <= 1, "max_flip_rate", max_flip_rate, FRACTION
            )
            _require(looks in get_args(Looks), "looks", looks, "give once or any")
            rules = Limits(confidence=confidence, looks=looks)
            if isinstance(labels, str | Path):
                rows = read_label_file(Path(labels))
                outcomes = match_labels(redraw(self._draw.traffic, Path(labels), rows), rows)
            else:
                outcomes = match_labels(self._draw, rows_of_mapping(self._draw, labels))
            return report_labels(outcomes, max_flip_rate, rules)


def disagree(  # noqa: PLR0913  # a published signature
    old: Any,
    new: Any,
    *,
    limit: float | None = None,
    confidence: float = 0.95,
    draw: int | None = None,
    strata: Strata = "none",
    seed: int = 0,
    ids: Any = None,
    classes: Any = None,
    old_classes: Any = None,
) -> LabelDraw:
    """Find the samples that two models predict differently, and draw those to label.

    Args:
        old, new: predictions files, or frames with the columns of such files; no labels are needed. Or, of
            the same samples in the same order, (N,) predictions or (N, C) logits, in lists or arrays.
        limit: of negative flips per sample, a fraction; `report.labels` says how many decide it.
        confidence: level of the two-sided interval that decides.
        draw: rows to draw; default: all whose predictions differ.
        strata: ``confidence``: draw in proportion from where the old model, the new one or neither is surer.
        seed: of the random order.
        ids: (N,) names of the samples of arrays; default: their numbers, from 0.
        classes, old_classes: of arrays, the classes that the new model and the old one know, in the order of
            their logits, as for `mptctl.evaluate`.

    Raises:
        DataError: the predictions do not fit, or none differ.
        NonFiniteError: rows of logits contain NaN or plus infinity.
        UsageError: an argument is out of range, more rows are drawn than there are, or strata lack
            confidences.
    """
    with options_as_arguments(), workspace():
        _require(limit is None or 0 < limit <= 1, "limit", limit, FRACTION)
        _require(strata in get_args(Strata), "strata", strata, "give none or confidence")
        _require(seed >= 0, "seed", seed, "give 0 or more")
        Limits(confidence=confidence)
        models = _read_models({"old": old, "new": new}, ids, classes, old_classes)
        drawn = Draw(read_traffic(models["old"], models["new"]), seed, draw, strata)
        return LabelDraw(report_disagreement(drawn, limit, confidence), drawn.rows(), drawn)


def _read_models(
    given: Mapping[str, Any], ids: Any, classes: Any, old_classes: Any
) -> dict[str, Predictions]:
    """Read the predictions of both models, by role: two files or frames, or two arrays."""
    if any(isinstance(value, str | Path) or is_frame(value) for value in given.values()):
        refuse_arguments_of_arrays(ids=ids, classes=classes, old_classes=old_classes)
        return {role: read_model(value, role, {}, labelled=False) for role, value in given.items()}
    if ids is None:
        ids = range(len(as_array(given["old"], "old")))
    test = InMemory.unlabelled(ids, classes, old_classes)
    return {role: test.predictions(role, value, is_old=role == "old") for role, value in given.items()}


def _require(holds: bool, name: str, value: object, remedy: str) -> None:
    """Raise UsageError for an argument that may not have this value."""
    if not holds:
        raise UsageError(f"{name} {value}: {remedy}")
