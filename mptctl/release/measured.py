"""Compute rates on validation samples with a shift and a temperature, for the report and the checkpoint."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.calibration.probabilities import score_probabilities
from mptctl.evaluation.statistics import upper_bounds
from mptctl.models.records import Validation
from mptctl.release.adjust_report import AdjustFigures


def report_rates(
    samples: ValidationSamples, bias: float, temperature: float, level: float, *, has_old: bool
) -> AdjustFigures:
    """The rates of the report; those of flips are None without an old model or samples of old classes.

    Args:
        samples: to compute the rates on.
        bias: what is subtracted from the new classes' logits.
        temperature: what the logits are divided by afterwards; only the NLL depends on it.
        level: of the two-sided interval of NFR whose upper end is the bound.
        has_old: there is an old model.
    """
    counts = validation_counts(samples, bias, has_old=has_old)
    flips = counts.flips if counts.samples_old else None
    is_known = samples.truth >= 0  # of a class that the model knows
    nll = None
    if is_known.any():
        logits = samples.logits[is_known] - bias * samples.is_new
        nll = score_probabilities(logits, samples.truth[is_known], temperature).nll
    return AdjustFigures(
        nfr=counts.nfr,
        bound=None if flips is None else float(upper_bounds(np.array([flips]), counts.samples_old, level)[0]),
        er_all=counts.errors / counts.samples,
        flips=flips,
        samples_old=None if flips is None else counts.samples_old,
        errors=counts.errors,
        samples=counts.samples,
        nll=nll,
    )


def validation_counts(samples: ValidationSamples, bias: float, *, has_old: bool) -> Validation:
    """The counts on validation samples, as after a training.

    Args:
        samples: the whole validation part.
        bias: what is subtracted from the new classes' logits.
        has_old: there is an old model; without one nothing is said of flips.
    """
    wrong = samples.answers.at(bias)
    return Validation(
        errors=int(wrong.sum()),
        samples=len(samples),
        errors_old=int(wrong[samples.of_old].sum()),
        samples_old=samples.n_old,
        flips=int((wrong & samples.to_keep).sum()) if has_old else None,
    )
