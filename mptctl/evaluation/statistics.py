"""Intervals, tests and verdicts for rates that two models share one test set for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from mptctl.evaluation.summary import Answer, Counts, Interval, Rate

# The standard error of a 2.5 % quantile of 10,000 normal draws is 0.7 % of the 95 % interval's width.
REPLICATES = 10_000


def wilson(count: int, total: int, confidence: float = 0.95) -> Interval | None:
    """Two-sided Wilson score interval of `count` / `total`; None where `total` is zero (Wilson 1927)."""
    if total == 0:
        return None
    low, high = binomtest(count, total).proportion_ci(confidence, method="wilson")
    return float(low), float(high)


def rate(count: int, total: int) -> Rate:
    """`count` / `total` with its 95 % Wilson interval; not defined where `total` is zero."""
    return Rate(value=count / total if total else None, count=count, of=total, ci95=wilson(count, total))


def mcnemar(counts: Counts) -> float:
    """Exact two-sided McNemar test: are negative and positive flips equally likely? (McNemar 1947)"""
    changed = counts.negative_flips + counts.positive_flips
    return float(binomtest(counts.negative_flips, changed).pvalue) if changed else 1.0


def expected_flips(counts: Counts) -> float:
    """Negative flips of a new model that errs independently of the old one: n (1 - ER_old) ER_new."""
    return counts.old_right * counts.new_wrong / counts.total if counts.total else 0.0


def relative_nfr(counts: Counts) -> float | None:
    """Rel-NFR (Eq. 8) in fractions; None where the old model is never right or the new one never wrong."""
    expected = expected_flips(counts)
    return counts.negative_flips / expected if expected else None


class Bootstrap(NamedTuple):
    """Percentile intervals of a paired bootstrap."""

    er_difference: Interval
    rel_nfr: Interval | None


def bootstrap(
    counts: Counts, confidence: float = 0.95, seed: int = 0, replicates: int = REPLICATES
) -> Bootstrap:
    """Paired bootstrap of ER_new - ER_old and of Rel-NFR.

    Both depend on the samples through the four counts alone, so that drawing samples with replacement is
    drawing the counts from a multinomial: exact, and independent of the number of samples in cost.
    Replicates in which Rel-NFR is not defined are left out of its interval.
    """
    cells = np.array([counts.both_right, counts.negative_flips, counts.positive_flips, counts.both_wrong])
    n = counts.total
    drawn = np.random.default_rng(seed).multinomial(n, cells / n, size=replicates)
    both_right, negative, positive, both_wrong = drawn.T
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile((negative - positive) / n, tails)
    difference = (float(low), float(high))

    expected = (both_right + negative) * (negative + both_wrong) / n
    defined = expected > 0
    if relative_nfr(counts) is None or not defined.any():
        return Bootstrap(difference, None)
    low, high = np.quantile(negative[defined] / expected[defined], tails)
    return Bootstrap(difference, (float(low), float(high)))


def below(interval: Interval, margin: float) -> Answer:
    """Does a rate lie below `margin`? Decided by its whole interval, not by its point."""
    if interval[1] < margin:
        return "yes"
    return "no" if interval[0] >= margin else "undecided"
