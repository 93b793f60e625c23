"""A mixture of old and new model at inference, to compare with: both have a say in which old class it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from mptctl.evaluation.bias.validation_samples import FloatArray, ValidationSamples

# Weights of the old model that are tried.
WEIGHTS = np.linspace(0, 1, 11)


class Mixture(NamedTuple):
    """Errors on all samples and negative flips, one number of each for every weight in `WEIGHTS`."""

    errors: list[int]
    flips: list[int]


def mix_old_in(samples: ValidationSamples, old_logits: FloatArray) -> Mixture:
    """Count errors and flips of mixtures of the new and the old model, for each weight w of the old one.

    The new model alone decides how probable each new class is, and all old classes together. For an old class
    i, p(i) = P_new(old) ((1 - w) p_new(i | old) + w p_old(i)).

    Args:
        samples: N samples with the new model's logits.
        old_logits: (N, C_old) the old model's logits, in the order of the old classes in the new model.
    """
    new_part, old_part = samples.logits[:, samples.is_new], samples.logits[:, ~samples.is_new]
    log_total_of_old = logsumexp(old_part, axis=1, keepdims=True)
    p_new, p_old = softmax(old_part, axis=1), softmax(old_logits, axis=1)
    errors, flips = [], []
    for weight in WEIGHTS:
        logits = np.empty_like(samples.logits)
        logits[:, samples.is_new] = new_part
        with np.errstate(divide="ignore"):
            logits[:, ~samples.is_new] = log_total_of_old + np.log((1 - weight) * p_new + weight * p_old)
        wrong = logits.argmax(axis=1) != samples.truth
        errors.append(int(wrong.sum()))
        flips.append(int((wrong & samples.to_keep).sum()))
    return Mixture(errors, flips)
