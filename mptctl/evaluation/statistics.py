"""Statistics of the flip table: the rates of a comparison, their intervals, and tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betainc, betainccinv, betaincinv, betaln  # scipy.stats is slow to import

from mptctl.evaluation.rates import Counts, Interval, Rate

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


def sequence_interval(count: int, total: int, level: float) -> Interval:
    """Compute an interval of a share that holds after every number of samples at once.

    Samples come one by one, independent and of one share p. Take a Beta(1/2, 1/2) prior cut off at p. The
    probability of the samples under it over that under p is a martingale of mean one (Robbins 1970), so it
    ever exceeds 2 / (1 - level) with a probability of at most (1 - level) / 2. The upper end of the interval
    is the last p for which it does not where the prior has smaller shares alone, the lower end that where it
    has larger ones alone.

    >>> [round(end, 4) for end in sequence_interval(0, 20, 0.95)]
    [0.0, 0.2038]

    Args:
        count: from 0 to `total`.
        total: samples so far, at least one.
        level: two-sided, over all sizes of the test set.
    """
    most = 1 - _sequence_end(total - count, total, tail_of(level))
    return most, _sequence_end(count, total, tail_of(level))


def _sequence_end(count: int, total: int, tail: float) -> float:
    """The upper end of `sequence_interval`."""
    others = total - count
    under_prior = betaln(count + 0.5, others + 0.5) - betaln(0.5, 0.5)

    def is_within(share: float) -> bool:
        log_probability = (count * math.log(share) if count else 0.0) + others * math.log1p(-share)
        below = betainc(count + 0.5, others + 0.5, share) / betainc(0.5, 0.5, share)
        return bool(under_prior + math.log(below) - log_probability <= -math.log(tail))

    inside, outside = count / total, 1.0
    while outside - inside > 1e-12:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_within(middle) else (inside, middle)
    return outside


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
    """Compute the interval of the error increase ER_new - ER_old from exact intervals of both kinds of flips.

    With p = b / n the share of negative flips, q = c / n that of positive flips, and their exact intervals
    (p_low, p_high) and (q_low, q_high), the error increase is p - q, and

        lower = p - q - sqrt((p - p_low)^2 - 2 phi (p - p_low) (q_high - q) + (q_high - q)^2)
        upper = p - q + sqrt((p_high - p)^2 - 2 phi (p_high - p) (q - q_low) + (q - q_low)^2)

    phi, the correlation of the two counts, is -sqrt(p q / ((1 - p) (1 - q))) with p = (b + 1) / (n + 2) and
    q = (c + 1) / (n + 2). The added flips keep it defined; where every sample flips it is -1, and both ends
    are exact. Samples that both models get right, and those that both get wrong, count alike. This is
    Newcombe's square-and-add construction (Statistics in Medicine 17 (1998), 2635-2650), with exact intervals
    of the flips in place of Wilson's of the two errors, which are too narrow where errors are shared and
    flips of one kind rare. In an enumeration (`tests.simulations.verdict_errors`) each end was wrong in at
    most (1 - confidence) / 2 of test sets.

    >>> table = Counts(both_right=20, negative_flips=0, positive_flips=0, both_wrong=0)
    >>> [round(end, 6) for end in er_increase_interval(table)]  # 1 - 0.025 ** (1 / 20) on both sides
    [-0.168433, 0.168433]

    Args:
        counts: the flip table, of at least one sample.
        confidence: level of the interval, two-sided.

    Returns:
        The ends, as fractions between -1 and 1.
    """
    n = counts.total
    b = counts.negative_flips
    c = counts.positive_flips
    p = b / n
    q = c / n
    p_low, p_high = exact_interval(b, n, confidence)
    q_low, q_high = exact_interval(c, n, confidence)
    phi = -math.sqrt((b + 1) * (c + 1) / ((n + 1 - b) * (n + 1 - c)))

    def square_and_add(one: float, other: float) -> float:
        return math.sqrt(one**2 - 2 * phi * one * other + other**2)

    return p - q - square_and_add(p - p_low, q_high - q), p - q + square_and_add(p_high - p, q - q_low)


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
    tail = tail_of(confidence)
    low, high = _exact_ends(flips, counts.new_wrong, (1 - OLD_PART) * tail)
    old_low, old_high = _exact_ends(counts.old_right, counts.total, OLD_PART * tail)
    return low / old_high, high / old_low
