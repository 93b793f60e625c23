"""The decision of a limit by an interval, and how many more samples an undecided limit needs."""

from __future__ import annotations

import math
from typing import Literal

from scipy.special import bdtrik, ndtri

from mptctl.evaluation.limits import LimitKind
from mptctl.evaluation.rates import Counts, Interval

Decision = Literal["pass", "fail", "undecided"]
# Limits are given in percent: 0.7 / 100 is a hair below 7 / 1000, and must not fail a rate of 7 / 1000.
ROUNDING = 1e-12
# Chosen, as is usual for the power of a test: the probability with which the named samples would decide.
PROBABILITY = 0.8
# Chosen: nobody collects more than so many times the samples at hand.
MOST_TIMES = 10_000


def decide(interval: Interval, limit: float) -> Decision:
    """Decide a limit: pass if the whole interval lies within it, fail if the whole interval lies above.

    >>> decide((0.01, 0.03), 0.03), decide((0.01, 0.03), 0.02), decide((0.01, 0.03), 0.005)
    ('pass', 'undecided', 'fail')
    """
    if interval[1] <= limit + ROUNDING:
        return "pass"
    return "fail" if interval[0] > limit + ROUNDING else "undecided"


def more_samples(counts: Counts, flips: int, kind: LimitKind, confidence: float, limit: float) -> int | None:
    """Compute how many more samples would decide a limit with probability `PROBABILITY`.

    The new samples are added to those at hand, and flip at the observed rate. If the rate is within its
    limit, they decide once the interval lies within the limit for all but the 1 - `PROBABILITY` of draws with
    the most flips. If the rate is above, they decide once the interval lies above for all but the draws with
    the fewest flips. The number of flips is the quantile of a binomial, and for a difference of errors of a
    normal distribution. Denominators grow by their observed shares.

    Args:
        counts: the flip table, with an interval that contains the limit.
        flips: flips that count, without those that are waived.
        kind: of the limit.
        confidence: level of the interval, two-sided.
        limit: a fraction.

    Returns:
        Samples, rounded up to two digits; None where the rate is not defined, or where even `MOST_TIMES` the
        samples at hand would not decide.
    """
    value = kind.value(counts, flips)
    if value is None:
        return None
    is_within = value <= limit

    def would_decide(more: int) -> bool:
        table, counted = _table_after(counts, flips, kind, more, many=is_within)
        interval = kind.interval(table, counted, confidence)
        return interval is not None and decide(interval, limit) != "undecided"

    low, high, most = 0, 1, MOST_TIMES * counts.total
    while not would_decide(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if would_decide(middle) else (middle, high)
    step: int = 10 ** max(0, len(str(high)) - 2)
    rounded = math.ceil(high / step) * step
    # Counts are whole numbers, so a few samples more than enough may not be enough again.
    while not would_decide(rounded):
        rounded += step
    return rounded


def _table_after(counts: Counts, flips: int, kind: LimitKind, more: int, *, many: bool) -> tuple[Counts, int]:
    """Extrapolate the flip table, and the flips that count, to `more` additional samples.

    Args:
        counts: the flip table of the samples at hand.
        flips: flips that count among these.
        kind: of the limit.
        more: additional samples.
        many: take as many new flips as `PROBABILITY` of draws do not exceed; else as few as `PROBABILITY`
            of draws reach.
    """
    times = 1 + more / counts.total
    cells = {name: times * n for name, n in counts.model_dump().items()}
    if kind.of is None:  # the error increase: negative minus positive flips
        lost = counts.negative_flips
        won = counts.positive_flips
        mean = (lost - won) / counts.total
        changed = (lost + won) / counts.total
        # A sample adds 1, -1 or 0 to the difference, with this mean and the variance changed - mean^2.
        deviation = float(ndtri(PROBABILITY)) * math.sqrt(more * (changed - mean**2))
        difference = times * (lost - won) + (deviation if many else -deviation)
        both = max(times * (lost + won), abs(difference))  # neither kind of flips is below zero
        cells["negative_flips"] = (both + difference) / 2
        cells["positive_flips"] = (both - difference) / 2
        return Counts.model_construct(**cells), flips  # the formulas need no whole numbers
    could_flip = round(more * kind.of(counts) / counts.total)
    share = flips / kind.of(counts)
    new_flips = _quantile(could_flip, share) if many else could_flip - _quantile(could_flip, 1 - share)
    return Counts.model_construct(**cells), flips + new_flips


def _quantile(size: int, share: float) -> int:
    """The smallest count that a binomial does not exceed with probability `PROBABILITY`.

    Args:
        size: number of draws.
        share: probability of each.
    """
    if not size or share in (0, 1):
        return round(size * share)
    return max(0, math.ceil(float(bdtrik(PROBABILITY, size, share))))
