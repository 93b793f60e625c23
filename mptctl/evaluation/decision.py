"""Three answers to whether a rate keeps to a limit, and how many more samples an open one needs."""

from __future__ import annotations

import math
from typing import Literal

from scipy.special import bdtrik, ndtri

from mptctl.evaluation.limits import LimitKind
from mptctl.evaluation.rates import Counts, Interval

Decision = Literal["pass", "fail", "undecided"]
# Limits arrive as percent: 0.7 / 100 is a hair below 7 / 1000, and must not fail a rate that equals it.
ROUNDING = 1e-12
# Chosen, as is usual for the power of a test: the probability with which so many more samples would decide.
PROBABILITY = 0.8
# Chosen: beyond so many times the samples that there are, nobody collects them.
MOST_TIMES = 10_000


def decide(interval: Interval, limit: float) -> Decision:
    """Passes where all of an interval lies within a limit, and fails where all of it lies above.

    >>> decide((0.01, 0.03), 0.03), decide((0.01, 0.03), 0.02), decide((0.01, 0.03), 0.005)
    ('pass', 'undecided', 'fail')
    """
    if interval[1] <= limit + ROUNDING:
        return "pass"
    return "fail" if interval[0] > limit + ROUNDING else "undecided"


def more_samples(counts: Counts, flips: int, kind: LimitKind, confidence: float, limit: float) -> int | None:
    """Computes how many more samples would decide with probability `PROBABILITY` at the observed rates.

    The samples that are there stay, and others are added. Where the rate is within its limit, that many are
    enough with which the interval still is when there are as many flips among them as only 1 - `PROBABILITY`
    of draws exceed (the binomial's quantile); where it is above, likewise with as few. Denominators grow by
    their observed shares. For the difference of errors the quantile is the normal one.

    Args:
        counts: the flip table, whose interval contains the limit.
        flips: those that count.
        kind: of the limit.
        confidence: level of the interval, two-sided.
        limit: a fraction.

    Returns:
        Samples, a number of two digits and zeros; None where `MOST_TIMES` as many would not decide either.
    """
    value = kind.value(counts, flips)
    if value is None:
        return None
    within = value <= limit

    def decided(more: int) -> bool:
        table, counted = _after(counts, flips, kind, more, many=within)
        interval = kind.interval(table, counted, confidence)
        return interval is not None and decide(interval, limit) != "undecided"

    low, high, most = 0, 1, MOST_TIMES * counts.total
    while not decided(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    step: int = 10 ** max(0, len(str(high)) - 2)
    found = math.ceil(high / step) * step
    # Counts are whole, so that a few more samples than enough may not be enough again.
    while not decided(found):
        found += step
    return found


def _after(counts: Counts, flips: int, kind: LimitKind, more: int, *, many: bool) -> tuple[Counts, int]:
    """The flip table and the flips that count after more samples, with many or few flips among those."""
    times = 1 + more / counts.total
    cells = {name: times * n for name, n in counts.model_dump().items()}
    if kind.of is None:
        lost, won = counts.negative_flips, counts.positive_flips
        mean, changed = (lost - won) / counts.total, (lost + won) / counts.total
        quantile = float(ndtri(PROBABILITY)) * math.sqrt(more * (changed - mean**2))
        gap = times * (lost - won) + (quantile if many else -quantile)
        both = max(times * (lost + won), abs(gap))
        cells["negative_flips"], cells["positive_flips"] = (both + gap) / 2, (both - gap) / 2
        return Counts.model_construct(**cells), flips  # the formulas need no whole numbers
    size = round(more * kind.of(counts) / counts.total)
    share = flips / kind.of(counts)
    drawn = _quantile(size, share) if many else size - _quantile(size, 1 - share)
    return Counts.model_construct(**cells), flips + drawn


def _quantile(size: int, share: float) -> int:
    """The smallest count that a binomial does not exceed with probability `PROBABILITY`."""
    if not size or share in (0, 1):
        return round(size * share)
    return max(0, math.ceil(float(bdtrik(PROBABILITY, size, share))))
