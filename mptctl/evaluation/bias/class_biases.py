"""A fit of one bias for each new class, shrunk towards the common bias of all new classes."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.bias.validation_samples import FloatArray, IntArray, ValidationSamples

# Weights of a class's own bias against the common one: 0 is the common bias alone, 1 the class's own alone.
# Cross-validation on two halves chooses one.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Prices of a flip, in errors, rising. With the last one a flip costs more than any number of errors.
PRICES = (0.0, *(2.0**power for power in range(-4, 11)), 1e9)


def fit_class_biases(
    samples: ValidationSamples, max_nfr: float | None, max_er_increase: float | None
) -> FloatArray | None:
    """Fit one bias for each new class so that all biases together keep a budget on some samples.

    The bias of a class makes errors + price * flips least among the samples that are answered with this
    class. All classes have the same price of a flip: with `max_nfr` the least that meets it, with
    `max_er_increase` the highest that keeps it. Each bias is then shrunk towards the common bias, which is
    fitted in the same way to all new classes together.

    Args:
        samples: one half of the validation part.
        max_nfr: NFR to reach, a fraction; or None.
        max_er_increase: how much the error may rise, a fraction; or None.

    Returns:
        (C,) biases, 0 on old classes and at least 0 on new ones; None where no class gets a bias of its own.
    """
    price = _choose_price(samples, max_nfr, max_er_increase)
    halves = samples.halves()
    fits = [_fit_biases(half, price) for half in halves]

    def held_out_cost(share: float) -> float:
        """Errors + price * flips of each half with the biases fitted on the other half, summed."""
        cost = 0.0
        for half, (own, common) in zip(halves, reversed(fits), strict=True):
            errors, flips = half.counts(share * own + (1 - share) * common)
            cost += errors + price * flips
        return cost

    share = min(SHARES, key=held_out_cost)
    own, common = _fit_biases(samples, price)
    biases = share * own + (1 - share) * common
    return biases if share > 0 and biases.any() else None


def _choose_price(samples: ValidationSamples, max_nfr: float | None, max_er_increase: float | None) -> float:
    """Choose the price of a flip with which the biases keep the budget on the samples they are fitted on.

    The least price that meets `max_nfr`, or the last one if none does; else the highest price that keeps
    `max_er_increase`, or the first one if none does.
    """
    errors, flips = np.array([samples.counts(_fit_biases(samples, price)[0]) for price in PRICES]).T
    if max_nfr is not None:
        met = np.flatnonzero(flips <= max_nfr * samples.n_old)
        return PRICES[met[0]] if met.size else PRICES[-1]
    errors_without_bias, _ = samples.counts(np.zeros(samples.logits.shape[1]))
    met = np.flatnonzero(errors <= errors_without_bias + (max_er_increase or 0.0) * len(samples))
    return PRICES[met[-1]] if met.size else PRICES[0]


def _fit_biases(samples: ValidationSamples, price: float) -> tuple[FloatArray, FloatArray]:
    """Fit the biases that make errors + price * flips least, before any shrinkage.

    Returns:
        (C,) each class's own bias, and (C,) the bias common to all new classes; both 0 on old classes.
    """
    new, old = np.flatnonzero(samples.is_new), np.flatnonzero(~samples.is_new)
    best_new = new[samples.logits[:, new].argmax(axis=1)]
    best_old = old[samples.logits[:, old].argmax(axis=1)]
    rows = np.arange(len(samples))
    # NaN where both logits are minus infinity, so that no bias changes the answer.
    with np.errstate(invalid="ignore"):
        gap = samples.logits[rows, best_new] - samples.logits[rows, best_old]
    # What it costs if a sample's answer changes from its best new class to its best old class.
    more_wrong = (best_old != samples.truth).astype(np.float64) - (best_new != samples.truth)
    cost = more_wrong * (1 + price * samples.to_keep)
    moving = (gap > 0) & np.isfinite(gap)
    common = np.where(samples.is_new, _cheapest_bias(gap, cost, np.flatnonzero(moving)), 0.0)
    own = common.copy()
    for column in new:
        answered = np.flatnonzero(moving & (best_new == column))
        if answered.size:  # a class that is never answered keeps the common bias
            own[column] = _cheapest_bias(gap, cost, answered)
    return own, common


def _cheapest_bias(gap: FloatArray, cost: FloatArray, rows: IntArray) -> float:
    """Find the smallest bias with the least total cost of the answers that it changes.

    Args:
        gap: (N,) the bias from which on the answer to a sample is an old class.
        cost: (N,) what this change of the answer costs; negative where it is a gain.
        rows: the samples that count.

    Returns:
        The middle between the last gap that the bias exceeds and the next one; 0 if no bias is worth it.
    """
    order = rows[np.argsort(gap[rows], kind="stable")]
    total = np.append(0.0, np.cumsum(cost[order]))
    changed = int(total.argmin())
    if changed == 0:
        return 0.0
    last = float(gap[order[changed - 1]])
    following = float(gap[order[changed]]) if changed < order.size else 1.01 * last
    return (last + following) / 2
