"""Count how often verdicts of the gate are wrong, and how often the further samples that it names decide.

python -m tests.simulations.verdict_errors
"""

from __future__ import annotations

import math
import sys
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import binom

from mptctl.evaluation.decision import more_samples
from mptctl.evaluation.limits import LIMITS, LimitKind
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import er_increase_interval, exact_interval, relative_nfr_interval
from tests.simulations.table import Table, percent

LEVEL = 0.95
# Test set sizes, and limits on a rate, for limits on counts.
COUNTED = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
COUNT_LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Test set sizes for Rel-NFR, and flip tables that are drawn of each simulated one.
ENUMERATED, SIMULATED, DRAWS = (5, 10, 20, 50, 100), (200, 1000, 5000), 20_000
# Models of an update: P(old right), P(new wrong | old right) and P(new wrong | old wrong).
MODELS = tuple(product((0.2, 0.5, 0.8, 0.9, 0.97), (0.005, 0.02, 0.1, 0.3), (0.1, 0.4, 0.8)))

# Test set sizes for the error increase, and flips of one kind that are expected in a test set, or their share.
# Half of the samples are wrong in both models, where so many do not flip.
INCREASED = (20, 50, 100, 200, 500, 1000, 2000)
EXPECTED_FLIPS = (
    0.0, 0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 40.0,
)  # fmt: skip
FLIP_SHARES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)

# Counts of a flip table: both right, negative flips, positive flips, both wrong.
Cells = tuple[int, int, int, int]
TABLES: tuple[Cells, ...] = ((880, 20, 50, 50), (440, 6, 34, 20), (2180, 62, 160, 98), (95, 3, 1, 1))


def main() -> int:
    """Print wrong verdicts of counts, of Rel-NFR and of the error increase, and how often more samples decide."""
    for title, sizes, errors in (
        ("counts, by enumeration", COUNTED, errors_of_counts),
        ("Rel-NFR, by enumeration of all flip tables; beyond 100 by simulation (standard error at 2.5 %: 0.11)",
         (*ENUMERATED, *SIMULATED), errors_of_ratio),
        ("error increase, by enumeration of all negative and positive flips; half of the samples are wrong in both",
         INCREASED, errors_of_increase),
    ):  # fmt: skip
        print(f"{title}: largest part of test sets, %")
        table = Table("n", "pass wrongly", "fail wrongly")
        for n in sizes:
            table.row(n, *map(percent, errors(n)))
    print("so many more samples as are named decide, % of 2,000 draws (standard error 0.9)")
    table = Table("flip table" + " " * 12, "limit on       ", "limit, %", "more", "decided")
    for cells, kind, times in product(TABLES, LIMITS, (0.7, 1.4)):
        counts = flip_table(cells)
        value = kind.value(counts, counts.negative_flips) or 0.0
        limit = value * times if kind.counts_flips else value + (0.01 if times > 1 else -0.01)
        more = more_samples(counts, counts.negative_flips, kind, LEVEL, limit)
        if more is not None and not deciding_share(cells, kind, limit, 0, 1):
            share = deciding_share(cells, kind, limit, more, 2000)
            table.row(cells, kind.name, percent(limit), more, percent(share, 1))
    return 0


def errors_of_counts(n: int) -> tuple[float, float]:
    """The largest chances, over `COUNT_LIMITS`, that a test set of n samples wrongly passes or wrongly fails.

    The true rate is at the limit: just above it a pass is wrong, just below it a fail.
    """
    count = np.arange(n + 1)
    ends = np.array([exact_interval(each, n, LEVEL) for each in count.tolist()])
    passed = [float(binom.pmf(count, n, limit)[ends[:, 1] < limit].sum()) for limit in COUNT_LIMITS]
    failed = [float(binom.pmf(count, n, limit)[ends[:, 0] > limit].sum()) for limit in COUNT_LIMITS]
    return max(passed), max(failed)


def cells_of(right: float, of_right: float, of_wrong: float) -> tuple[NDArray[np.float64], float]:
    """The probabilities of the four cells of `Cells`, and the true Rel-NFR.

    Args:
        right: P(old right).
        of_right: P(new wrong | old right).
        of_wrong: P(new wrong | old wrong).
    """
    flip, both_wrong = right * of_right, (1 - right) * of_wrong
    probabilities = np.array([right - flip, flip, 1 - right - both_wrong, both_wrong])
    return probabilities, of_right / (flip + both_wrong)


def errors_of_ratio(n: int) -> tuple[float, float]:
    """The largest chances, over `MODELS`, that a test set of n samples wrongly passes or fails on Rel-NFR.

    The limit is the true Rel-NFR. All flip tables of n samples are gone through, or where these are too many,
    `DRAWS` drawn ones of each model.
    """
    rng, passed, failed = np.random.default_rng(n), [], []
    is_enumerated = n <= ENUMERATED[-1]
    if is_enumerated:
        tables = np.array(
            [(*cells, n - sum(cells)) for cells in product(range(n + 1), repeat=3) if sum(cells) <= n]
        )
        ends = np.array([interval_or_all(row) for row in tables.tolist()])
        ways = gammaln(n + 1) - gammaln(tables + 1).sum(axis=1)
    for model in MODELS:
        cells, ratio = cells_of(*model)
        if is_enumerated:
            chance = np.exp(ways + xlogy(tables, cells).sum(axis=1))
        else:
            ends = np.array([interval_or_all(row) for row in rng.multinomial(n, cells, size=DRAWS).tolist()])
            chance = np.full(DRAWS, 1 / DRAWS)
        passed.append(float(chance[ends[:, 1] < ratio].sum()))
        failed.append(float(chance[ends[:, 0] > ratio].sum()))
    return max(passed), max(failed)


def errors_of_increase(n: int) -> tuple[float, float]:
    """The largest chances that a test set of n samples wrongly passes or fails a limit on the error increase.

    The limit is the true error increase. The true shares of negative and positive flips are all pairs of
    `EXPECTED_FLIPS` / n and `FLIP_SHARES`, and all pairs of counts of flips are gone through that have a
    chance.
    """
    ends = np.zeros((n + 1, n + 1, 2))
    for negative in range(n + 1):
        for positive in range(n + 1 - negative):
            both_wrong = min(n // 2, n - negative - positive)
            table = (n - negative - positive - both_wrong, negative, positive, both_wrong)
            ends[negative, positive] = er_increase_interval(flip_table(table), LEVEL)
    shares = sorted({*(flips / n for flips in EXPECTED_FLIPS if flips <= n / 2), *FLIP_SHARES})
    passed, failed = [], []
    for p, q in product(shares, shares):
        if 0 < p + q <= 1:
            lost, won = likely_counts(n, p)[:, None], likely_counts(n, q)[None, :]
            # Positive flips are binomial among the samples that are no negative flips.
            chance = binom.pmf(lost, n, p) * binom.pmf(won, n - lost, min(1.0, q / (1 - p)))
            low, high = np.moveaxis(ends[lost, won], -1, 0)
            # Ends that equal the limit but for rounding decide rightly.
            passed.append(float(chance[high < p - q - 1e-12].sum()))
            failed.append(float(chance[low > p - q + 1e-12].sum()))
    return max(passed), max(failed)


def likely_counts(n: int, share: float) -> NDArray[np.int64]:
    """The counts of a binomial but for those whose chance is below 1e-12."""
    return np.arange(int(binom.ppf(1e-12, n, share)) if share else 0, int(binom.isf(1e-12, n, share)) + 1)


def interval_or_all(row: Cells) -> tuple[float, float]:
    """The interval of Rel-NFR; from 0 to infinity, which never decides, where it is not defined."""
    return relative_nfr_interval(flip_table(row), LEVEL) or (0.0, math.inf)


def deciding_share(table: Cells, kind: LimitKind, limit: float, more: int, draws: int) -> float:
    """The share of draws in which a limit is decided once further samples are added.

    Args:
        table: the flip table.
        kind: of the limit.
        limit: its value.
        more: number of samples to add; they are drawn at the rates of the table.
        draws: number of draws.
    """
    rng = np.random.default_rng(0)
    enlarged = rng.multinomial(more, np.array(table) / sum(table), size=draws) + np.array(table)
    decided = 0
    for row in enlarged.tolist():
        counts = flip_table(row)
        interval = kind.interval(counts, counts.negative_flips, LEVEL)
        assert interval is not None
        decided += interval[1] <= limit or interval[0] > limit
    return decided / draws


def flip_table(row: Cells) -> Counts:
    """The flip table of four counts; they are not checked, for speed."""
    names = ("both_right", "negative_flips", "positive_flips", "both_wrong")
    return Counts.model_construct(**dict(zip(names, row, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
