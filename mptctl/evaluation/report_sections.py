"""Sections of the report of a comparison: the models, the margins and the bias sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import encodable
from mptctl.evaluation.bias.sweep import sweep_bias
from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.flip_report import (
    Errors,
    MarginGroup,
    Margins,
    ModelSummary,
    SweepPoint,
)
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.statistics import rate

# Bars of a histogram of margins.
BINS = 30
# A margin of a larger size counts as infinite: sums and differences of such margins would overflow.
LARGEST = 1e100


class MarginSamples(NamedTuple):
    """(n,) logit margins of one model on the samples of old or of new classes."""

    model: Literal["old", "new"]
    samples: Literal["old classes", "new classes"]
    margins: NDArray[np.float64]


def summarise_margins(groups: Sequence[MarginSamples]) -> Margins | None:
    """Compute the histograms of groups of margins, with common edges, and the quantiles of each group.

    Args:
        groups: margins that are NaN or beyond `LARGEST` are left out, and so is a group without others.

    Returns:
        The histograms; None where no margin is left.
    """
    finite = [(model, samples, values[np.abs(values) <= LARGEST]) for model, samples, values in groups]
    everything = np.concatenate([values for *_, values in finite]) if finite else np.empty(0)
    if not everything.size:
        return None
    # The half percent at each end is counted in the outer bars: far values would squeeze all others together.
    low, high = np.quantile(everything, [0.005, 0.995])
    low, high = (
        min(float(low), 0.0),
        max(float(high), 0.0),
    )  # a flip has a margin below zero, so zero is shown
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    return Margins(
        edges=[float(edge) for edge in edges],
        groups=[
            MarginGroup(
                model=model,
                samples=samples,
                n=values.size,
                mean=float(values.mean()),
                quantiles=tuple(float(q) for q in np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])),
                negative=rate(int((values < 0).sum()), values.size),
                histogram=np.histogram(np.clip(values, low, high), edges)[0].tolist(),
            )
            for model, samples, values in finite
            if values.size
        ],
    )


def summarise(answers: PairedAnswers, role: str) -> ModelSummary:
    """Summarise one model by itself: its errors, and where it has logits the calibration of its confidence.

    Where a class map merged logits, there is no calibration: their softmax is not the model's.

    Args:
        answers: all models.
        role: of the one that is summarised, such as ``old``.
    """
    model, total, old_total = answers.pairing.models[role], len(answers.pairing), answers.counts().total
    old_wrong, all_wrong = answers.wrong(role)
    errors = Errors(
        old_classes=rate(old_wrong, old_total),
        new_classes=rate(all_wrong - old_wrong, total - old_total),
        all_classes=rate(all_wrong, total),
    )
    calibration = None
    if role in answers.own_scores and model.classes is not None:
        known = answers.pairing.among(model.classes)[answers.pairing.truth]
        if known.any():
            calibration = calibrate(answers.own_scores[role].confidence[known], answers.right[role][known])
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


def compare_margins(answers: PairedAnswers) -> Margins | None:
    """Compare the logit margins of the old and the new model; None where neither has logits of its own.

    The old model's margins are those on samples of old classes; it does not know the new ones.
    """
    scores = answers.own_scores
    if not scores:
        return None
    of_old, groups = answers.of_old, list[MarginSamples]()
    if "old" in scores:
        groups.append(MarginSamples("old", "old classes", scores["old"].margin[of_old]))
    if "new" in scores:
        groups.append(MarginSamples("new", "old classes", scores["new"].margin[of_old]))
        groups.append(MarginSamples("new", "new classes", scores["new"].margin[~of_old]))
    return summarise_margins(groups)


def sweep_biases(answers: PairedAnswers) -> list[SweepPoint]:
    """Compute the bias curve of the new model; empty without logits, or where no bias changes an answer."""
    if "new" not in answers.scores:
        return []
    return sweep_bias(answers.scores["new"], answers.pairing.truth, answers.of_old, answers.to_keep)
