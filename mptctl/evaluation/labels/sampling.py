"""Limits of flips that follow from the labels of a random part of the disagreements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import bdtr, gammainccinv, gammaln

from mptctl.evaluation.decision import PROBABILITY
from mptctl.evaluation.limits import Looks
from mptctl.evaluation.rates import Interval
from mptctl.evaluation.statistics import exact_interval, tail_of
from mptctl.files import Model

FloatArray = NDArray[np.float64]
# Chosen: the part of an interval's error that the choice of labels gets; that of the traffic gets the rest.
# Over labels of 10 to 100 % of disagreements, no other part in tenths has a smaller largest loss of width.
SAMPLING_PART = 0.3
# Points at which a stratum's cost is computed, and multipliers, where there are several strata.
POINTS, MULTIPLIERS = 512, 256


@dataclass(frozen=True)
class Stratum:
    """Disagreements of which a random part was labelled.

    Attributes:
        rows: all disagreements.
        labelled: how many of them have a label.
        flips: labels that certainly are flips of the kind that is counted.
        unsure: labels that may be.
    """

    rows: int
    labelled: int
    flips: int
    unsure: int = 0

    @property
    def at_most(self) -> Stratum:
        """The same, with the labels that may be flips among the flips."""
        return replace(self, flips=self.flips + self.unsure, unsure=0)

    @property
    def mirrored(self) -> Stratum:
        """The same rows, of which all others are counted, at most."""
        return replace(self, flips=self.labelled - self.flips, unsure=0)


def _log_binomial(total: Any, chosen: Any) -> Any:
    return gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1)


def _log_probability(flips: Any, total: Any, rows: Any, labelled: Any) -> Any:
    """The logarithm of P(X = flips) for a hypergeometric X, as `log_lower_tail` has it."""
    others = _log_binomial(rows - total, labelled - flips)
    return _log_binomial(total, flips) + others - _log_binomial(rows, labelled)


def log_lower_tail(flips: Any, total: Any, rows: Any, labelled: Any) -> FloatArray:
    """The logarithm of P(X <= flips) for a hypergeometric X: flips among the labelled rows.

    >>> round(math.exp(log_lower_tail(0, 2, 4, 2)), 6)  # of 4 rows 2 flip: neither is among 2 labels, 1 / 6
    0.166667

    Args:
        flips: (...) from 0 to `labelled`.
        total, rows, labelled: (...) flips among all rows, all rows, and rows drawn without replacement.
    """
    arrays = (np.asarray(each, np.int64) for each in (flips, total, rows, labelled))
    most, total, rows, labelled = np.broadcast_arrays(*arrays)
    # The standard deviation is at most root / 2: terms further down do not change a double.
    root = math.isqrt(int(labelled.max())) + 1
    width = min(int(most.max()), 20 * root + 100) + 1
    all_flips, every, drawn = (each[..., None] for each in (total, rows, labelled))
    found = most[..., None] - np.arange(width)
    possible = (found >= 0) & (found <= all_flips) & (drawn - found <= every - all_flips)
    found = np.where(possible, found, np.maximum(0, drawn - every + all_flips))
    terms = np.where(possible, _log_probability(found, all_flips, every, drawn), -np.inf)
    largest = terms.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.exp(terms - largest).sum(axis=-1)) + largest[..., 0]
    # Hoeffding: beyond 10 roots above the mean, the rest is below exp(-200).
    is_all = most - labelled * (total / rows) > 10 * root
    return np.where(is_all, 0.0, np.minimum(np.where(np.isfinite(largest[..., 0]), tail, -np.inf), 0))


def log_ratio(stratum: Stratum, total: Any) -> FloatArray:
    """The logarithm of the prior-posterior ratio at a total number of flips, after some labels.

    With D rows, m labels, f flips and an even prior of the total F from 0 to D, the ratio is

        R(F) = 1 / ((m + 1) P(X = f)),  X hypergeometric: flips among m of D rows of which F flip

    the probability of the labels under the prior over that under F. Where F is true, R begins at one and is
    never expected to grow with the next label in random order (Waudby-Smith and Ramdas, NeurIPS 2020), so it
    ever exceeds 1 / a with a probability of at most a.

    >>> round(math.exp(log_ratio(Stratum(2, 1, 1), 1)), 6)  # (1 / 2) / (1 / 2)
    1.0
    """
    rows, labelled = stratum.rows, stratum.labelled
    under_total = _log_probability(stratum.flips, np.asarray(total), rows, labelled)
    return np.asarray(-np.log(labelled + 1) - under_total)


def log_ratio_from_below(stratum: Stratum, total: Any) -> FloatArray:
    """The logarithm of the ratio whose prior has smaller totals alone, so that all error is on one side.

    That is R(F) P(F' < F after the labels) / P(F' < F before). With an even prior the latter is F / (D + 1),
    and the former the probability that a sample of m + 1 of D + 1 rows with F flips has more than f.

    >>> round(math.exp(log_ratio_from_below(Stratum(2, 1, 0), 1)), 6)  # one smaller total: 1 / (1 / 2)
    2.0
    """
    after = -np.expm1(log_lower_tail(stratum.flips, total, stratum.rows + 1, stratum.labelled + 1))
    with np.errstate(divide="ignore"):
        return log_ratio(stratum, total) + np.log(after) + np.log((stratum.rows + 1) / np.asarray(total))


def most_flips(strata: Sequence[Stratum], tail: float, looks: Looks) -> int:
    """Compute an upper limit of the flips among all rows of some strata.

    Each stratum has a cost c(F) of a total F: for one look -log P(X <= flips), so that exp(-c) is a p-value;
    for any looks the logarithm of the prior-posterior ratio, of one stratum that from below. Totals whose
    costs add up to more than a budget are ruled out, and the largest sum of others is the limit. The strata
    are drawn apart. So for one look the sum of H costs is at most that of H exponential variables (Fisher
    1932), and the budget is the quantile of a gamma distribution; for any looks the product of the ratios is
    not expected to grow either, and the budget is log(1 / tail). One stratum inverts the hypergeometric
    distribution, or the ratio. With several the largest sum is replaced by its Lagrangian bound, which is
    never below it.

    >>> most_flips([Stratum(4, 2, 0)], 0.2, "once")  # P(X = 0) is 1/2 with one flip, 1/6 with two
    1

    Args:
        strata: drawn independently, each at random without replacement; `unsure` is not read.
        tail: probability with which the limit may be too low: of one look, or of any of all looks.
        looks: once, after a number of labels that was fixed before, or any number of times.
    """
    partly = [each for each in strata if 0 < each.labelled < each.rows]
    known = sum(each.flips if each.labelled else each.rows for each in strata if each not in partly)
    if not partly:
        return known
    # At any looks the same strata are added up, also those whose labels are complete, or not begun.
    kept = partly if looks == "once" else [each for each in strata if each.rows]
    if len(kept) == 1:
        (one,) = partly
        cost = log_ratio_from_below if looks == "any" else _tail_cost
        return known + _last_within(one, _lowest(one, looks), -math.log(tail), cost)
    cost = log_ratio if looks == "any" else _tail_cost
    budget = budget_of([(each.rows, each.labelled) for each in strata], tail, looks)
    lowest = [_lowest(each, looks) for each in partly]
    least = [float(cost(each, start)) for each, start in zip(partly, lowest, strict=True)]
    spare = [budget - sum(least) + own for own in least]
    highest = [_last_within(*each, cost) for each in zip(partly, lowest, spare, strict=True)]
    multipliers = np.concatenate([[0], np.geomspace(1e-3, sum(highest) + 1, MULTIPLIERS)])
    bound = multipliers * budget
    for each, low, high in zip(partly, lowest, highest, strict=True):
        # The cost of totals between two points is at least that at the lower one.
        points = np.unique(np.linspace(low, high, POINTS).astype(np.int64))
        lower = np.concatenate([points[:1], points[:-1]])
        bound += (points - multipliers[:, None] * cost(each, lower)).max(axis=1)
    return known + min(math.floor(float(bound.min()) + 1e-6), sum(highest))


def budget_of(sizes: Sequence[tuple[int, int]], tail: float, looks: Looks) -> float:
    """The largest sum that the costs of partly labelled strata may have, as in `most_flips`.

    Args:
        sizes: rows and labelled rows of all strata.
        tail, looks: as `most_flips` has them.
    """
    if looks == "once":
        return float(gammainccinv(max(1, sum(0 < labelled < rows for rows, labelled in sizes)), tail))
    # The ratio of D rows that are all labelled is 1 / (D + 1) at the true total.
    return -math.log(tail) + sum(math.log(rows + 1) for rows, labelled in sizes if labelled == rows)


def _lowest(stratum: Stratum, looks: Looks) -> int:
    """The total of least cost: the labelled flips for one look, the most likely total for any looks."""
    rows, labelled, flips = stratum.rows, stratum.labelled, stratum.flips
    likely = min((rows + 1) * flips // labelled, rows - labelled + flips)
    return flips if looks == "once" else max(flips, likely)


def _tail_cost(stratum: Stratum, total: Any) -> FloatArray:
    """The cost of totals for one look, as `most_flips` has it."""
    return -log_lower_tail(stratum.flips, total, stratum.rows, stratum.labelled)


def _last_within(
    stratum: Stratum, low: int, budget: float, cost: Callable[[Stratum, Any], FloatArray]
) -> int:
    """The largest total, from `low` on, whose cost is within a budget; costs rise from there."""
    most = stratum.rows - stratum.labelled + stratum.flips
    return _bisect(low, most + 1, lambda total: bool(cost(stratum, total) <= budget))


def flips_interval(strata: Sequence[Stratum], tail: float, looks: Looks) -> tuple[int, int]:
    """Compute both limits of the flips among all rows, each too narrow with a probability of at most `tail`.

    >>> flips_interval([Stratum(5, 5, 2, 1)], 0.025, "once")  # all rows are labelled, one of them `unsure`
    (2, 3)
    """
    rows = sum(each.rows for each in strata)
    low = rows - most_flips([each.mirrored for each in strata], tail, looks)
    return low, most_flips([each.at_most for each in strata], tail, looks)


def share_interval(flips: tuple[int, int], total: int, tail: float) -> Interval:
    """Compute the limits of the flips per sample in the traffic that `total` samples are drawn from.

    >>> share_interval((0, 0), 20, 0.025) == exact_interval(0, 20, 0.95)
    True
    """
    level = 1 - 2 * tail
    return exact_interval(flips[0], total, level)[0], exact_interval(flips[1], total, level)[1]


@dataclass(frozen=True)
class Shares:
    """Two intervals of flips per sample: of the drawn traffic, and of the traffic that it stands for."""

    drawn: Interval
    population: Interval


def flip_shares(strata: Sequence[Stratum], total: int, tail: float, looks: Looks) -> Shares:
    """Compute the intervals of flips per sample, over all rows and `total` - rows samples that cannot flip.

    The limits of the drawn traffic are those of `flips_interval`. Those of the traffic that it stands for
    come of two steps: the flips F among the drawn samples are at most U but with the probability
    `SAMPLING_PART` x tail; and the share p is at most the exact limit at F of `total` but with the rest. That
    limit grows with F, so p is at most the limit at U but with probability `tail`.
    """
    low, high = flips_interval(strata, tail, looks)
    sampled = flips_interval(strata, SAMPLING_PART * tail, looks)
    return Shares((low / total, high / total), share_interval(sampled, total, (1 - SAMPLING_PART) * tail))


def difference(one: Interval, other: Interval) -> Interval:
    """The interval of a difference of two shares, from intervals of both: wrong only if one of them is."""
    return one[0] - other[1], one[1] - other[0]


class LabelPlan(Model):
    """The number of labels that shows a limit with some probability, if the true rate is half of it."""

    needed: int | None = Field(
        description="labels of disagreements in random order; 0: none is needed; null: not even all suffice"
    )
    random_needed: int | None = Field(
        description="labels of samples drawn at random from all; null: more than 10^9"
    )
    for_limit: float = Field(description="the limit of negative flips per sample, a fraction")
    power: float = Field(description="the probability with which so many labels show that it is kept")
    confidence: float = Field(description="level of the two-sided interval that shows it")


# Most labels of random samples that a plan names.
MOST_RANDOM = 10**9


def plan_labels(rows: int, total: int, limit: float, level: float) -> LabelPlan:
    """Plan the labels that show a limit with probability `PROBABILITY`, if half of it is the true share.

    Args:
        rows: disagreements among the samples.
        total: samples.
        limit: of negative flips per sample, a fraction.
        level: of the interval, two-sided.
    """
    tail = tail_of(level)
    part = SAMPLING_PART * tail
    most = _bisect(
        -1, total + 1, lambda flips: share_interval((flips, flips), total, tail - part)[1] <= limit
    )
    true = min(rows, round(total * limit / 2))

    def is_shown(labels: int) -> bool:
        if labels == rows:
            return true <= most
        allowed = _bisect(
            -1, labels + 1, lambda f: log_lower_tail(f, most + 1, rows, labels) <= math.log(part)
        )
        return allowed >= 0 and float(log_lower_tail(allowed, true, rows, labels)) >= math.log(PROBABILITY)

    def is_shown_at_random(labels: int) -> bool:
        allowed = _bisect(-1, labels + 1, lambda f: float(bdtr(f, labels, limit)) <= tail)
        return allowed >= 0 and float(bdtr(allowed, labels, limit / 2)) >= PROBABILITY

    needed = 0 if rows <= most else _first(is_shown, rows)
    return LabelPlan(
        needed=needed,
        random_needed=_first(is_shown_at_random, MOST_RANDOM),
        for_limit=limit,
        power=PROBABILITY,
        confidence=level,
    )


def _bisect(low: int, high: int, holds: Any) -> int:
    """The last number from `low` on, and below `high`, for which something holds that holds up to a number.

    It is not asked at `low`, which is returned where it holds nowhere above.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _first(holds: Any, most: int) -> int | None:
    """The smallest number from 1 to `most` from which on something holds; None where it holds at none.

    Where it holds for a number and not for a few above, this is one of the first for which it holds.
    """
    high = 1
    while not holds(high):
        if high == most:
            return None
        high = min(2 * high, most)
    return _bisect(high // 2, high + 1, lambda number: not holds(number)) + 1 if high > 1 else 1
