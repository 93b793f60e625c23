"""Three answers to whether a rate keeps to a limit, and how many more samples an open one needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from mptctl.evaluation.rates import Counts, Interval

Decision = Literal["pass", "fail", "undecided"]
# Limits arrive as percent: 0.7 / 100 is a hair below 7 / 1000, and must not fail a rate that equals it.
ROUNDING = 1e-12
# Chosen: beyond so many times the samples that there are, nobody collects them.
MOST_TIMES = 10_000
# Chosen: how closely the number of samples is looked for, a part of it. It rests on the rates staying as they are.
CLOSE = 0.01


def decide(interval: Interval, limit: float) -> Decision:
    """Whether all of an interval lies within a limit, all of it above, or the limit inside of it."""
    if interval[1] <= limit + ROUNDING:
        return "pass"
    return "fail" if interval[0] > limit + ROUNDING else "undecided"


def more_samples(counts: Counts, interval: Callable[[Counts], Interval | None], limit: float) -> int | None:
    """How many more samples would decide, were every cell of the flip table to grow alike.

    Args:
        counts: the flip table, whose interval holds the limit.
        interval: of the rate that is limited.
        limit: a fraction.

    Returns:
        Samples of old classes, rounded up to two digits; None where `MOST_TIMES` as many would not decide either.
    """

    def decided(times: float) -> bool:
        # The formulas need no whole numbers.
        cells = {name: times * n for name, n in counts.model_dump().items()}
        found = interval(Counts.model_construct(**cells))
        return found is not None and decide(found, limit) != "undecided"

    low, high = 1.0, 2.0
    while not decided(high):
        low, high = high, 2 * high
        if high > MOST_TIMES:
            return None
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    more = math.ceil((high - 1) * counts.total)
    step: int = 10 ** max(0, len(str(more)) - 2)
    return math.ceil(more / step) * step
