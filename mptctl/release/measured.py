"""Rates on validation samples with a bias and a temperature: for the report, and for the checkpoint."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.bias.validation_samples import FloatArray, ValidationSamples
from mptctl.evaluation.calibration.probabilities import score_probabilities
from mptctl.evaluation.statistics import upper_bounds
from mptctl.models.records import Validation
from mptctl.release.adjust_report import AdjustFigures


def figures(
    samples: ValidationSamples, biases: FloatArray, temperature: float, level: float, *, known_old: bool
) -> AdjustFigures:
    """Rates for the report.

    Args:
        samples: those that chose.
        biases: (C,) what is taken off each logit.
        temperature: what the logits are divided by afterwards.
        level: of the two-sided interval whose upper end is the bound.
        known_old: there is an old model; else nothing is said of flips.
    """
    errors, flips = samples.counts(biases)
    known = samples.truth >= 0
    n, n_old = len(samples), samples.n_old
    rated = known_old and n_old > 0
    likelihood = None
    if known.any():
        logits = samples.logits[known] - biases
        likelihood = score_probabilities(logits, samples.truth[known], temperature).nll
    return AdjustFigures(
        nfr=flips / n_old if rated else None,
        bound=float(upper_bounds(np.array([flips]), n_old, level)[0]) if rated else None,
        er_all=errors / n,
        flips=flips if rated else None,
        samples_old=n_old if rated else None,
        errors=errors,
        samples=n,
        nll=likelihood,
    )


def metrics(
    samples: ValidationSamples, biases: FloatArray, *, known_old: bool
) -> dict[str, float | int | None]:
    """Counts and rates on the whole validation part, by the names that a trained run has.

    Args:
        samples: the validation part.
        biases: (C,) what is taken off each logit.
        known_old: there is an old model; else nothing is said of flips.
    """
    wrong = samples.wrong(biases)
    return Validation(
        errors=int(wrong.sum()),
        samples=len(samples),
        errors_old=int(wrong[samples.of_old].sum()),
        samples_old=samples.n_old,
        flips=int((wrong & samples.to_keep).sum()) if known_old else None,
    ).figures()
