"""The summary of one model in the report of a comparison: its errors, and its calibration."""

from __future__ import annotations

from mptctl.errors import encodable
from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.flip_report import Errors, ModelSummary
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.statistics import rate


def summarise(answers: PairedAnswers, role: str) -> ModelSummary:
    """Summarise one model by itself: its errors, and where it has logits the calibration of its confidence.

    Args:
        answers: all models.
        role: of the one that is summarised, such as ``old``.
    """
    model = answers.pairing.models[role]
    total = len(answers.pairing)
    old_total = answers.counts().total
    old_wrong, all_wrong = answers.wrong(role)
    errors = Errors(
        old_classes=rate(old_wrong, old_total),
        new_classes=rate(all_wrong - old_wrong, total - old_total),
        all_classes=rate(all_wrong, total),
    )
    calibration = None
    if role in answers.scores and model.classes is not None:
        known = answers.pairing.among(model.classes)[answers.pairing.truth]
        if known.any():
            calibration = calibrate(answers.scores[role].confidence[known], answers.right[role][known])
    return ModelSummary(
        name=encodable(model.name),
        classes=None if model.classes is None else len(model.classes),
        er_old_classes=old_wrong / old_total,
        er_new_classes=errors.new_classes.value,
        er_all=all_wrong / total,
        knows_new=_knows_new(answers, role),
        ece=calibration.ece if calibration else None,
        aece=calibration.aece if calibration else None,
        errors=errors,
        reliability=calibration.bins if calibration else None,
    )


def _knows_new(answers: PairedAnswers, role: str) -> bool | None:
    """Tell whether a model can predict any class beside the old ones; None where that is not known.

    An old model that names no classes is taken to know the labels that it predicts, however its classes were
    given.
    """
    model = answers.pairing.models[role]
    if model.classes is None and role == "new":
        return None
    known = model.classes
    if known is None:
        known = tuple(set(model.table.answers) & set(model.table.labels))
    return not set(known) <= answers.old_classes
