"""A bias of its own for each new class, fitted with shrinkage to the one that all of them share."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.bias.validation_samples import FloatArray, IntArray, ValidationSamples

# Shares of its own bias that a class keeps; 0 is the common one. Chosen by two-fold cross-validation.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Prices of a flip, in errors. The largest one prefers a flip less to any number of errors that a half has.
PRICES = (0.0, *(2.0**power for power in range(-4, 11)), 1e9)


def fit_class_biases(
    samples: ValidationSamples, max_nfr: float | None, max_er_increase: float | None
) -> FloatArray | None:
    """Biases of the new classes that together meet a budget on some samples, each class as it pays.

    Every class takes off what makes errors + price * flips least among the samples that it answers; one price
    holds for all classes, the least with which the budget is met (max_nfr), or the highest that the budget
    pays for (max_er_increase). What a class finds is shrunk to what all classes together find with the same
    price.

    Args:
        samples: one half of the validation part.
        max_nfr: NFR to reach, a fraction; or None.
        max_er_increase: how much the error may rise, a fraction; or None.

    Returns:
        (C,) biases, 0 on old classes and at least 0 on new ones; None where nothing is to be taken off.
    """
    price = _price(samples, max_nfr, max_er_increase)
    halves = samples.halves()
    fits = [_fit(half, price) for half in halves]

    def held_out_cost(share: float) -> float:
        """Errors and priced flips of each half with the biases that were fitted on the other."""
        cost = 0.0
        for half, (own, common) in zip(halves, reversed(fits), strict=True):
            errors, flips = half.counts(share * own + (1 - share) * common)
            cost += errors + price * flips
        return cost

    share = min(SHARES, key=held_out_cost)
    own, common = _fit(samples, price)
    biases = share * own + (1 - share) * common
    return biases if share > 0 and biases.any() else None


def _price(samples: ValidationSamples, max_nfr: float | None, max_er_increase: float | None) -> float:
    """The price of a flip at which the classes' own biases meet the budget on the samples that fit them."""
    counts = [samples.counts(_fit(samples, price)[0]) for price in PRICES]
    if max_nfr is not None:
        most = max_nfr * samples.n_old
        return next((p for p, (_, flips) in zip(PRICES, counts, strict=True) if flips <= most), PRICES[-1])
    errors, _ = samples.counts(np.zeros(samples.logits.shape[1]))
    most = errors + (max_er_increase or 0.0) * len(samples)
    return max((p for p, (wrong, _) in zip(PRICES, counts, strict=True) if wrong <= most), default=PRICES[0])


def _fit(samples: ValidationSamples, price: float) -> tuple[FloatArray, FloatArray]:
    """(C,) each: the bias of every class by itself, and the one of all together."""
    new, old = np.flatnonzero(samples.is_new), np.flatnonzero(~samples.is_new)
    best_new = new[samples.logits[:, new].argmax(axis=1)]
    best_old = old[samples.logits[:, old].argmax(axis=1)]
    rows = np.arange(len(samples))
    with np.errstate(invalid="ignore"):  # two minus infinities: the sample has no answer to move
        gap = samples.logits[rows, best_new] - samples.logits[rows, best_old]
    # Cost of a sample that goes over from its best new class to its best old one.
    change = (best_old != samples.truth).astype(np.float64) - (best_new != samples.truth)
    cost = change * (1 + price * samples.to_keep)
    moving = (gap > 0) & np.isfinite(gap)
    common = np.where(samples.is_new, _cheapest(gap, cost, np.flatnonzero(moving)), 0.0)
    own = common.copy()
    for column in new:
        answered = np.flatnonzero(moving & (best_new == column))
        if answered.size:  # a class that never answers says nothing of its own
            own[column] = _cheapest(gap, cost, answered)
    return own, common


def _cheapest(gap: FloatArray, cost: FloatArray, rows: IntArray) -> float:
    """The bias at which what goes over costs least, the smallest of equal ones: between two gaps."""
    order = rows[np.argsort(gap[rows], kind="stable")]
    total = np.append(0.0, np.cumsum(cost[order]))
    at = int(total.argmin())
    if at == 0:
        return 0.0
    last = float(gap[order[at - 1]])
    following = float(gap[order[at]]) if at < order.size else 1.01 * last
    return (last + following) / 2
