"""Intervals, tests and verdicts for rates that two models share one test set for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import (  # scipy.stats takes a second to import
    bdtr,
    betainccinv,
    chdtri,
    expit,
    ndtri,
    xlog1py,
    xlogy,
)

from mptctl.evaluation.rates import Answer, Counts, Interval, Rate

# Below this p of a test a difference is called more than noise.
SIGNIFICANT = 0.05
# Six rounds of 65 points close in on a logit to 72 / 32^6 = 7e-8, where a log-likelihood of a billion samples is
# exact to 1e-5.
GRID_POINTS, GRID_ROUNDS = 65, 6


def wilson(count: int, total: int, confidence: float = 0.95) -> Interval | None:
    """Two-sided Wilson score interval of `count` / `total`; None where `total` is zero (Wilson 1927)."""
    return score_interval(count, total, confidence) if total else None


def score_interval(count: int, total: int, confidence: float = 0.95) -> Interval:
    """The same of at least one sample, where there always is one."""
    # From the upper tail: the quantile of a level next to 1 would round to infinity.
    z = -float(ndtri((1 - confidence) / 2))
    centre = (count + z * z / 2) / (total + z * z)
    half = z * math.sqrt(count * (total - count) / total + z * z / 4) / (total + z * z)
    return centre - half if count else 0.0, centre + half if count < total else 1.0


def clopper_pearson_upper(counts: NDArray[np.int64], total: int, confidence: float) -> NDArray[np.float64]:
    """Exact one-sided upper bound of each of some counts / `total` (Clopper and Pearson 1934).

    It is the probability at which so few of `total` come up with 1 - `confidence`.

    Args:
        counts: (S,) from 0 to `total`.
        total: samples, at least one.
        confidence: level of the bound, one-sided.

    Returns:
        (S,) fractions; 1 where every sample counts.
    """
    inside = np.minimum(counts, total - 1)
    bound: NDArray[np.float64] = betainccinv(inside + 1, total - inside, 1 - confidence)
    return np.where(counts < total, bound, 1.0)


def most_within(limit: float, total: int, confidence: float) -> int:
    """The largest count of `total` whose upper bound, by `clopper_pearson_upper`, is at most a limit; -1 for none."""
    bounds = clopper_pearson_upper(np.arange(total + 1), total, confidence)
    return int(np.flatnonzero(bounds <= limit).max(initial=-1))


def rate(count: int, total: int) -> Rate:
    """`count` / `total` with its 95 % Wilson interval; not defined where `total` is zero."""
    return Rate(value=count / total if total else None, count=count, of=total, ci95=wilson(count, total))


def nfr(counts: Counts) -> float:
    """NFR (Eq. 7) of at least one sample, a fraction."""
    return counts.negative_flips / counts.total


def lost_share(counts: Counts) -> float | None:
    """Part of the old model's right answers that are lost; None where it has none."""
    return counts.negative_flips / counts.old_right if counts.old_right else None


def er_increase(counts: Counts) -> float:
    """ER_new - ER_old over at least one sample of the old classes, a fraction."""
    return (counts.negative_flips - counts.positive_flips) / counts.total


def mcnemar(counts: Counts) -> float:
    """Exact two-sided McNemar test: are negative and positive flips equally likely? (McNemar 1947)"""
    changed = counts.negative_flips + counts.positive_flips
    # The binomial of a fair coin is symmetric: twice the smaller tail, or all of it where both tails meet.
    fewer = min(counts.negative_flips, counts.positive_flips)
    return 1.0 if 2 * fewer == changed else 2 * float(bdtr(fewer, changed, 0.5))


def expected_flips(counts: Counts) -> float:
    """Negative flips of a new model that errs independently of the old one: n (1 - ER_old) ER_new."""
    return counts.old_right * counts.new_wrong / counts.total if counts.total else 0.0


def relative_nfr(counts: Counts) -> float | None:
    """Rel-NFR (Eq. 8) in fractions; None where the old model is never right or the new one never wrong."""
    expected = expected_flips(counts)
    return counts.negative_flips / expected if expected else None


def error_difference(counts: Counts, confidence: float = 0.95) -> Interval:
    """Interval of ER_new - ER_old = (b - c) / n by Newcombe's square-and-add method for pairs.

    Method 10 of Newcombe, Improved confidence intervals for the difference between binomial proportions based on
    paired data, Statistics in Medicine 17 (1998), 2635-2650. With cells a (both right), b (negative flips),
    c (positive flips), d (both wrong), p1 = (a + b) / n, p2 = (a + c) / n and their Wilson intervals (l, u):

        lower = p1 - p2 - sqrt((p1 - l1)^2 - 2 phi (p1 - l1) (u2 - p2) + (u2 - p2)^2)
        upper = p1 - p2 + sqrt((u1 - p1)^2 - 2 phi (u1 - p1) (p2 - l2) + (p2 - l2)^2)

    phi is the correlation of the cells, (a d - b c) / sqrt((a + b) (c + d) (a + c) (b + d)), with n / 2 taken off a
    positive numerator, but not below zero; it is 0 where the root is.

    Args:
        counts: the flip table, of at least one sample.
        confidence: level of the interval, two-sided.

    Returns:
        The ends, as fractions between -1 and 1; the interval has a width whatever the counts.
    """
    a, b, c, d = _cells(counts)
    n = counts.total
    first, second = score_interval(a + b, n, confidence), score_interval(a + c, n, confidence)
    p1, p2 = (a + b) / n, (a + c) / n
    covariance: float = a * d - b * c
    if covariance > 0:
        covariance = max(covariance - n / 2, 0)
    # Each root by itself: the product of four counts leaves the exact integers of a float.
    spread = math.sqrt((a + b) * (c + d)) * math.sqrt((a + c) * (b + d))
    phi = covariance / spread if spread else 0.0

    def add(one: float, other: float) -> float:
        return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    return p1 - p2 - add(p1 - first[0], second[1] - p2), p1 - p2 + add(first[1] - p1, p2 - second[0])


def relative_nfr_interval(counts: Counts, confidence: float = 0.95) -> Interval | None:
    """Profile-likelihood interval of Rel-NFR = n b / ((a + b) (b + d)) over the four multinomial cells.

    It holds every ratio whose best fitting cells have a log-likelihood no more than chi2_1(confidence) / 2 below that
    of the counts themselves (Venzon and Moolgavkar, A method for computing profile-likelihood-based confidence
    intervals, Applied Statistics 37 (1988), 87-94). Without a flip it begins at 0 and still has an upper end.

    Args:
        counts: the flip table.
        confidence: level of the interval, two-sided.

    Returns:
        The ends, as fractions; None where Rel-NFR is not defined.
    """
    value = relative_nfr(counts)
    if value is None:
        return None
    allowed = float(chdtri(1, 1 - confidence))
    cells = np.array(_cells(counts), dtype=np.float64)
    best = float(xlogy(cells, cells / cells.sum()).sum())

    def excess(log_ratio: float) -> float:
        return 2 * (best - _best_log_likelihood(counts, math.exp(log_ratio))) - allowed

    # Without a flip every small ratio fits; half a flip is where to begin.
    inside = math.log(value or 0.5 / expected_flips(counts))
    while excess(inside) >= 0:
        inside -= 1.0

    def end(step: float) -> float:
        near, far = inside, inside + step
        while excess(far) < 0:
            near, far, step = far, far + 2 * step, 2 * step
        while abs(far - near) > 1e-10:
            middle = (near + far) / 2
            near, far = (middle, far) if excess(middle) < 0 else (near, middle)
        return math.exp(near)

    return (end(-1.0) if counts.negative_flips else 0.0), end(1.0)


def _best_log_likelihood(counts: Counts, ratio: float) -> float:
    """Log-likelihood of the cells that fit best among those whose Rel-NFR is `ratio`.

    With r = P(old right), alpha = P(new wrong | old right) and beta = P(new wrong | old wrong), Rel-NFR is
    alpha / (r alpha + (1 - r) beta), so that it fixes eta = beta / alpha = (1 / ratio - r) / (1 - r) for each r. Given
    eta, the best alpha solves n eta alpha^2 - ((b + d) (1 + eta) + a + c eta) alpha + b + d = 0, as for a ratio of
    two rates (Koopman, Biometrics 40 (1984), 513-517). What is left, r, is searched on a grid that closes in.
    """
    a, b, c, d = _cells(counts)
    low, high = (
        -36.0,
        36.0,
    )  # r as a logit of its part of the possible: beyond, 1 - r is no number of a double
    found = -np.inf
    for _ in range(GRID_ROUNDS):
        grid = np.linspace(low, high, GRID_POINTS)
        rest = expit(-grid)  # 1 - r / (largest possible r), without rounding
        gap = rest / ratio if ratio >= 1 else (1 / ratio - 1) + rest  # 1 / ratio - r
        not_r = (1 - 1 / ratio) + gap if ratio >= 1 else rest  # 1 - r
        eta = gap / not_r
        linear = (b + d) * (1 + eta) + a + c * eta
        root = np.sqrt(np.maximum(linear**2 - 4 * counts.total * eta * (b + d), 0))
        alpha = np.minimum(2 * (b + d) / (linear + root), 1)
        beta = np.minimum(eta * alpha, 1)
        value = (
            xlogy(a + b, expit(grid) / max(ratio, 1))
            + xlogy(c + d, not_r)
            + xlogy(b, alpha)
            + xlog1py(a, -alpha)
            + xlogy(d, beta)
            + xlog1py(c, -beta)
        )
        at = int(np.argmax(value))
        found = max(found, float(value[at]))
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, GRID_POINTS - 1)])
    return found


def _cells(counts: Counts) -> tuple[int, int, int, int]:
    return counts.both_right, counts.negative_flips, counts.positive_flips, counts.both_wrong


def below(interval: Interval, margin: float) -> Answer:
    """Does a rate lie below `margin`? Decided by its whole interval, not by its point."""
    if interval[1] < margin:
        return "yes"
    return "no" if interval[0] >= margin else "undecided"
