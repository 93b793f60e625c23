"""Statistics of the flip table: the rates of a comparison, their intervals, and tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betainccinv, betaincinv, ndtri  # scipy.stats takes a second to import

from mptctl.evaluation.rates import Answer, Counts, Interval, Rate

# With a p below this, a difference is called more than noise.
SIGNIFICANT = 0.05
# Chosen: the interval of Rel-NFR is made of two, and this is the part of its error, 1 - confidence, that goes
# to the one of the old model's right answers. It is small because the few flips are what makes it wide.
OLD_PART = 0.1


def tail_of(confidence: float) -> float:
    """The probability beyond each end of a two-sided interval."""
    return (1 - confidence) / 2


def exact_interval(count: int, total: int, confidence: float = 0.95) -> Interval:
    """Compute the exact two-sided interval of the share `count` / `total`.

    If the true share were the lower end, `count` or more of `total` would have probability
    (1 - confidence) / 2. If it were the upper end, `count` or fewer would have this probability. So each end
    is wrong at most that often, whatever `total`. The lower end is 0 where `count` is 0, the upper end is 1
    where `count` is `total` (Clopper and Pearson, Biometrika 26 (1934), 404-413).

    >>> low, high = exact_interval(0, 20)
    >>> low, round(high, 6)  # 1 - 0.025 ** (1 / 20)
    (0.0, 0.168433)

    Args:
        count: from 0 to `total`.
        total: samples, at least one.
        confidence: level of the interval, two-sided.
    """
    return _exact_ends(count, total, tail_of(confidence))


def exact_interval_if_any(count: int, total: int, confidence: float = 0.95) -> Interval | None:
    """Compute the exact two-sided interval of `count` / `total`; None where `total` is zero."""
    return exact_interval(count, total, confidence) if total else None


def _exact_ends(count: int, total: int, tail: float) -> Interval:
    """The ends of `exact_interval`, beyond each of which the probability is `tail`."""
    low = float(betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(betainccinv(count + 1, total - count, tail)) if count < total else 1.0
    return low, high


def upper_bounds(counts: NDArray[np.int64], total: int, confidence: float) -> NDArray[np.float64]:
    """Compute the upper end of the exact two-sided interval of each share `counts` / `total`.

    >>> upper_bounds(np.array([0, 20]), 20, 0.95).round(4).tolist()
    [0.1684, 1.0]

    Args:
        counts: (S,) from 0 to `total`.
        total: samples, at least one.
        confidence: level of the interval, two-sided.

    Returns:
        (S,) fractions; 1 where every sample counts.
    """
    # The inverse is not defined at a count of `total`; the last line puts 1 there.
    below_total = np.minimum(counts, total - 1)
    bound: NDArray[np.float64] = betainccinv(below_total + 1, total - below_total, tail_of(confidence))
    return np.where(counts < total, bound, 1.0)


def most_within(limit: float, total: int, confidence: float) -> int:
    """Find the largest count of `total` whose bound by `upper_bounds` is at most a limit; -1 if none is.

    >>> most_within(0.2, 20, 0.95)  # a count of 0 has the bound 0.1684, a count of 1 0.2487
    0
    """
    bounds = upper_bounds(np.arange(total + 1), total, confidence)
    return int(np.flatnonzero(bounds <= limit).max(initial=-1))


def rate(count: int, total: int) -> Rate:
    """Make a rate of `count` / `total` with its exact 95 % interval; both are None where `total` is zero.

    >>> rate(1, 4).value, rate(0, 0).value
    (0.25, None)
    """
    value = count / total if total else None
    return Rate(value=value, count=count, of=total, ci95=exact_interval_if_any(count, total))


def nfr(counts: Counts) -> float:
    """NFR (Eq. 7) of at least one sample, a fraction.

    >>> nfr(Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1))
    0.1
    """
    return counts.negative_flips / counts.total


def lost_share(counts: Counts) -> float | None:
    """The share of the old model's right answers that the new model loses; None where OLD is never right.

    >>> lost_share(Counts(both_right=3, negative_flips=1, positive_flips=2, both_wrong=4))
    0.25
    """
    return counts.negative_flips / counts.old_right if counts.old_right else None


def er_increase(counts: Counts) -> float:
    """The error increase ER_new - ER_old over at least one sample of the old classes, a fraction.

    >>> er_increase(Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1))
    -0.1
    """
    return (counts.negative_flips - counts.positive_flips) / counts.total


def mcnemar(counts: Counts) -> float:
    """The p of the exact two-sided test that negative and positive flips are equally likely (McNemar 1947).

    >>> table = Counts(both_right=9, negative_flips=1, positive_flips=5, both_wrong=0)
    >>> round(mcnemar(table), 5)  # 2 (1 + 6) / 64
    0.21875
    """
    changed = counts.negative_flips + counts.positive_flips
    # The binomial of a fair coin is symmetric: p is twice the smaller tail, or 1 if both are equal.
    fewer = min(counts.negative_flips, counts.positive_flips)
    return 1.0 if 2 * fewer == changed else 2 * float(bdtr(fewer, changed, 0.5))


def expected_flips(counts: Counts) -> float:
    """The negative flips expected if both models err independently: n (1 - ER_old) ER_new, for n samples.

    >>> expected_flips(Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1))  # 7 * 2 / 10
    1.4
    """
    return counts.old_right * counts.new_wrong / counts.total if counts.total else 0.0


def relative_nfr(counts: Counts) -> float | None:
    """Rel-NFR (Eq. 8), a fraction; None where the old model is never right or the new model never wrong.

    >>> table = Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1)
    >>> round(relative_nfr(table), 4)  # 1 / 1.4
    0.7143
    """
    expected = expected_flips(counts)
    return counts.negative_flips / expected if expected else None


def er_increase_interval(counts: Counts, confidence: float = 0.95) -> Interval:
    """Compute the interval of the error increase ER_new - ER_old by Newcombe's square-and-add method.

    The cells of the flip table are a (both right), b (negative flips), c (positive flips), d (both wrong), of
    n samples. The shares of right answers are p1 = (a + b) / n of OLD and p2 = (a + c) / n of NEW, and the
    error increase is p1 - p2. From the Wilson intervals (l1, u1) of p1 and (l2, u2) of p2:

        lower = p1 - p2 - sqrt((p1 - l1)^2 - 2 phi (p1 - l1) (u2 - p2) + (u2 - p2)^2)
        upper = p1 - p2 + sqrt((u1 - p1)^2 - 2 phi (u1 - p1) (p2 - l2) + (p2 - l2)^2)

    phi is the correlation of the cells, (a d - b c) / sqrt((a + b) (c + d) (a + c) (b + d)). A positive
    numerator is made smaller by n / 2, but not below 0. phi is 0 where the root is 0. This is method 10 of
    Newcombe, Improved confidence intervals for the difference between binomial proportions based on paired
    data, Statistics in Medicine 17 (1998), 2635-2650.

    >>> table = Counts(both_right=36, negative_flips=12, positive_flips=2, both_wrong=0)
    >>> [round(end, 4) for end in er_increase_interval(table)]  # the paper's example
    [0.0569, 0.3404]

    Args:
        counts: the flip table, of at least one sample.
        confidence: level of the interval, two-sided.

    Returns:
        The ends, as fractions between -1 and 1; the interval has a width whatever the counts.
    """
    a, b, n = counts.both_right, counts.negative_flips, counts.total
    c, d = counts.positive_flips, counts.both_wrong
    p1, p2 = (a + b) / n, (a + c) / n
    covariance: float = a * d - b * c
    if covariance > 0:
        covariance = max(covariance - n / 2, 0)
    # Two roots: the product of four counts may exceed 2**53, up to which a float holds every integer.
    spread = math.sqrt((a + b) * (c + d)) * math.sqrt((a + c) * (b + d))
    phi = covariance / spread if spread else 0.0

    def square_and_add(one: float, other: float) -> float:
        return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    (l1, u1), (l2, u2) = _wilson(a + b, n, confidence), _wilson(a + c, n, confidence)
    return p1 - p2 - square_and_add(p1 - l1, u2 - p2), p1 - p2 + square_and_add(u1 - p1, p2 - l2)


def _wilson(count: int, total: int, confidence: float) -> Interval:
    """Compute Wilson's score interval of `count` / `total`.

    Journal of the American Statistical Association 22 (1927), 209-212.
    """
    # By the tail, since its complement may round to 1, whose quantile is infinite.
    z = -float(ndtri(tail_of(confidence)))
    centre = (count + z * z / 2) / (total + z * z)
    half = z * math.sqrt(count * (total - count) / total + z * z / 4) / (total + z * z)
    low = centre - half if count else 0.0
    high = centre + half if count < total else 1.0
    return low, high


def relative_nfr_interval(
    counts: Counts, confidence: float = 0.95, flips: int | None = None
) -> Interval | None:
    """Compute a conservative interval of Rel-NFR from two exact intervals.

    Rel-NFR is P(old right | new wrong) / P(old right). The flips among the new model's wrong answers are
    binomial with the first probability. The old model's right answers among all samples are binomial with the
    second. The exact interval of the first gets the part 1 - `OLD_PART` of the error (1 - confidence), the
    exact interval of the second the part `OLD_PART`. Each end of the result is the ratio of opposite ends of
    the two intervals. The result is wrong only if one of the two is, so at most as often as their errors add
    up to (Bonferroni). This inverts the test that takes the largest p over an interval of the nuisance
    parameter (Berger and Boos, Journal of the American Statistical Association 89 (1994), 1012-1016).

    >>> relative_nfr_interval(Counts(both_right=9, negative_flips=0, positive_flips=1, both_wrong=0)) is None
    True

    Args:
        counts: the flip table.
        confidence: level of the interval, two-sided.
        flips: flips that count, at most `counts.new_wrong`; None: all of the table. The denominators stay
            those of the table.

    Returns:
        The ends, as fractions; None where Rel-NFR is not defined.
    """
    if not expected_flips(counts):
        return None
    flips = counts.negative_flips if flips is None else flips
    flips_tail, old_tail = (1 - OLD_PART) * tail_of(confidence), OLD_PART * tail_of(confidence)
    low, high = _exact_ends(flips, counts.new_wrong, flips_tail)
    old_low, old_high = _exact_ends(counts.old_right, counts.total, old_tail)
    return low / old_high, high / old_low


def below(interval: Interval, margin: float) -> Answer:
    """Decide by its interval whether a rate lies below a margin: yes, no (at or above it) or undecided.

    >>> below((0.01, 0.02), 0.03), below((0.01, 0.02), 0.015)
    ('yes', 'undecided')
    """
    if interval[1] < margin:
        return "yes"
    return "no" if interval[0] >= margin else "undecided"
