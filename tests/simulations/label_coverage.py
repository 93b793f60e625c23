"""Count how often intervals from few labels are wrong, at one look and at any of many, and wrong passes at a limit.

python -m tests.simulations.label_coverage [--streams 2000]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.labels.sampling import (
    SAMPLING_PART,
    Stratum,
    budget_of,
    log_lower_tail,
    log_ratio,
    log_ratio_from_below,
    share_interval,
)
from mptctl.evaluation.limits import Looks
from mptctl.evaluation.statistics import sequence_interval
from tests.simulations.table import Table, percent

TAIL = 0.025
TRAFFIC = (2_000, 1_000_000)
DISAGREEMENT = (0.001, 0.01, 0.05, 0.2)
FLIPS = (0.02, 0.2, 0.5)
# Shares of flips in three strata of equal size, as multiples of that of all.
SPREAD = (0.2, 1.0, 1.8)
# The one look is after so many labels, or after all; of any looks, each of these is one.
ONCE: tuple[int, ...] = (150,)
LOOKS = (5, 10, 20, 35, 55, 80, 110, 150, 200, 300)
# A test set with all labels that grows, and true rates.
GROWING, RATES = 2_000, (0.005, 0.02, 0.1)
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Setting(NamedTuple):
    """Samples, the shares of disagreements among them and of flips among these, and the number of strata."""

    total: int
    disagreement: float
    flips: float
    strata: int

    @property
    def shares(self) -> NDArray[np.float64]:
        """(H,) the share of flips in each stratum."""
        return self.flips * np.array(SPREAD if self.strata == 3 else (1.0,))


class Wrong(NamedTuple):
    """Of all streams, the shares with a wrong interval of each population, and with a wrong pass at the limit."""

    drawn: float
    population: float
    passed: float


def main() -> int:
    """Print a line for each setting, the largest shares, and those of test sets that grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2_000)
    streams = parser.parse_args().streams
    worst = {"once": Wrong(0, 0, 0), "any": Wrong(0, 0, 0)}
    print(f"{streams:,} streams each; wrong in % of streams: this traffic, such traffic, pass at the limit")
    table = Table("samples", "differ, %", "flips, %", "strata", "looks", "this", "such", "passed")
    for *each, looks in product(TRAFFIC, DISAGREEMENT, FLIPS, (1, 3), worst):
        setting = Setting(*each)
        wrong = count_wrong(setting, looks, streams)  # type: ignore[arg-type]
        worst[looks] = Wrong(*map(max, worst[looks], wrong))
        shares = percent(setting.disagreement, 1), percent(setting.flips, 0)
        table.row(setting.total, *shares, setting.strata, looks, *map(percent, wrong))
    for looks, wrong in worst.items():
        print(f"largest, looks {looks}: {', '.join(map(percent, wrong))}")
    errors = (math.sqrt(share * (1 - share) / streams) for share in (0.05, 0.025))
    print(f"standard error at 5 %, at 2.5 %: {', '.join(map(percent, errors))}")
    print(f"all labels, a look at each of {GROWING:,} samples")
    table = Table("rate, %", "wrong", "passed")
    for rate in RATES:
        table.row(percent(rate, 1), *map(percent, count_wrong_growing(rate, streams)))
    return 0


def count_wrong(setting: Setting, looks: Looks, streams: int) -> Wrong:
    """The shares of streams in which an interval, at some look, is wrong.

    Each stream draws its traffic anew, and labels it in random order, in proportion from each stratum. The
    limit is the true rate, so a pass is wrong. With several strata the true flips are held against what the
    costs rule out, and an interval may be wider: the share of this traffic is then the most that it can be,
    and the others are nan.
    """
    generator = np.random.default_rng(
        [setting.total, int(1e6 * setting.disagreement), int(100 * setting.flips), setting.strata]
    )
    chosen = generator.binomial(setting.total, setting.disagreement, streams)
    rows = generator.multinomial(chosen, np.full(setting.strata, 1 / setting.strata))
    flips = generator.binomial(rows, setting.shares)
    few, many = critical_counts(setting.total, setting.disagreement * float(setting.shares.mean()))
    wrong = np.zeros((3, streams), dtype=bool)
    for labelled, found in drawn(generator, rows, flips, ONCE if looks == "once" else LOOKS):
        others = labelled - found
        if setting.strata > 1:
            wrong[0] |= ~is_allowed(rows, labelled, found, flips, looks) | ~is_allowed(
                rows, labelled, others, rows - flips, looks
            )
            continue
        one = (rows[:, 0], labelled[:, 0], found[:, 0])
        other = (rows[:, 0], labelled[:, 0], others[:, 0])
        true = flips[:, 0]
        wrong[0] |= ~reaches(*one, true, TAIL, looks) | ~reaches(*other, rows[:, 0] - true, TAIL, looks)
        passes = ~reaches(*one, np.full(streams, many), SAMPLING_PART * TAIL, looks)
        wrong[1] |= passes | ~reaches(*other, rows[:, 0] - few, SAMPLING_PART * TAIL, looks)
        wrong[2] |= passes
    shares = wrong.mean(axis=1).tolist()
    return Wrong(*shares) if setting.strata == 1 else Wrong(shares[0], math.nan, math.nan)


def critical_counts(total: int, rate: float) -> tuple[int, int]:
    """The largest count whose lower limit is not above a rate, and the smallest whose upper limit is not below."""
    tail = (1 - SAMPLING_PART) * TAIL
    few = many = round(total * rate)
    while few < total and share_interval((few + 1, few + 1), total, tail)[0] <= rate:
        few += 1
    while many > 0 and share_interval((many - 1, many - 1), total, tail)[1] >= rate:
        many -= 1
    return few, many


def reaches(
    rows: IntArray, labelled: IntArray, flips: IntArray, total: IntArray, tail: float, looks: Looks
) -> BoolArray:
    """(S,) whether `most_flips` of one stratum is at least a total: its costs rise beyond the likeliest total."""
    partly = (labelled > 0) & (labelled < rows)
    likely = np.minimum((rows + 1) * flips // np.maximum(labelled, 1), rows - labelled + flips)
    most = np.where(partly, rows - labelled + flips, np.where(labelled > 0, flips, rows))
    start = np.where(partly, likely if looks == "any" else flips, most)
    asked = partly & (total > start) & (total <= most)
    allowed = total <= start
    if asked.any():
        stratum = Stratum(rows[asked], labelled[asked], flips[asked])  # type: ignore[arg-type]
        allowed[asked] = _cost(stratum, total[asked], looks, alone=True) <= -math.log(tail)
    return allowed


def _cost(stratum: Stratum, total: IntArray, looks: Looks, *, alone: bool) -> NDArray[np.float64]:
    if looks == "any":
        return log_ratio_from_below(stratum, total) if alone else log_ratio(stratum, total)
    return -log_lower_tail(stratum.flips, total, stratum.rows, stratum.labelled)


def is_allowed(
    rows: IntArray, labelled: IntArray, flips: IntArray, total: IntArray, looks: Looks
) -> BoolArray:
    """(S,) whether the costs of (S, H) true totals add up to no more than the budget of `most_flips`."""
    partly = (labelled > 0) & (labelled < rows)
    costs = np.zeros(rows.shape)
    if partly.any():
        stratum = Stratum(rows[partly], labelled[partly], flips[partly])  # type: ignore[arg-type]
        costs[partly] = _cost(stratum, total[partly], looks, alone=False)
    sizes = [list(zip(*each, strict=True)) for each in zip(rows.tolist(), labelled.tolist(), strict=True)]
    budgets = np.array([budget_of(each, TAIL, looks) for each in sizes])
    return np.asarray(~partly.any(axis=1) | (costs.sum(axis=1) <= budgets + 1e-9))


def drawn(
    generator: np.random.Generator, rows: IntArray, flips: IntArray, looks: tuple[int, ...]
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield (S, H) labels, and flips among them, at each look; all rows where a look has more."""
    labelled, found = np.zeros_like(rows), np.zeros_like(rows)
    for look in looks:
        share = np.minimum(1, look / np.maximum(1, rows.sum(axis=1, keepdims=True)))
        wanted = np.round(rows * share).astype(np.int64)
        left = flips - found
        found = found + generator.hypergeometric(left, rows - labelled - left, wanted - labelled)
        labelled = wanted
        yield labelled, found


def count_wrong_growing(rate: float, streams: int) -> tuple[float, float]:
    """The shares of growing test sets with a wrong interval, and with a wrong pass, after any sample."""
    counts = (np.random.default_rng(7).random((streams, GROWING)) < rate).cumsum(axis=1)

    @cache
    def outside(count: int, n: int) -> tuple[bool, bool]:
        low, high = sequence_interval(count, n, 1 - 2 * TAIL)
        return not low <= rate <= high, high <= rate

    wrong = np.zeros((2, streams), dtype=bool)
    for n in range(1, GROWING + 1):
        values, place = np.unique(counts[:, n - 1], return_inverse=True)
        wrong |= np.array([outside(each, n) for each in values.tolist()])[place].T
    return float(wrong[0].mean()), float(wrong[1].mean())


if __name__ == "__main__":
    sys.exit(main())
