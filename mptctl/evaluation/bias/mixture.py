"""Two models at inference, for comparison: the old one's answers mixed in among the old classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from mptctl.evaluation.bias.validation_samples import FloatArray, ValidationSamples

WEIGHTS = np.linspace(0, 1, 11)


class Mixture(NamedTuple):
    """Errors on all samples and negative flips, (W,) each, by weight of the old model."""

    errors: list[int]
    flips: list[int]


def mix_old_in(samples: ValidationSamples, old_logits: FloatArray) -> Mixture:
    """Errors and flips where the old model has a say in which old class it is.

    How probable the old classes are together, and each new class, stays the new model's word:
    p(i) = P_new(old) ((1 - w) p_new(i | old) + w p_old(i)) for an old class i.

    Args:
        samples: of the new model.
        old_logits: (N, C_old) of the old model, its classes in the order of the new model's old columns.
    """
    new, old = samples.logits[:, samples.is_new], samples.logits[:, ~samples.is_new]
    together = logsumexp(old, axis=1, keepdims=True)
    own, theirs = softmax(old, axis=1), softmax(old_logits, axis=1)
    errors, flips = [], []
    for weight in WEIGHTS:
        logits = np.empty_like(samples.logits)
        logits[:, samples.is_new] = new
        with np.errstate(divide="ignore"):
            logits[:, ~samples.is_new] = together + np.log((1 - weight) * own + weight * theirs)
        wrong = logits.argmax(axis=1) != samples.truth
        errors.append(int(wrong.sum()))
        flips.append(int((wrong & samples.to_keep).sum()))
    return Mixture(errors, flips)
