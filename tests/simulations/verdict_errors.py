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
from mptctl.evaluation.gate.check import check_gate
from mptctl.evaluation.limits import LIMITS, Limits
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import er_increase_interval, exact_interval, relative_nfr_interval

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
    print("counts, by enumeration: largest part of test sets that")
    print("     n  pass wrongly  fail wrongly, %")
    for n in COUNTED:
        passed, failed = (100 * worst for worst in errors_of_counts(n))
        print(f"{n:>6,}  {passed:>12.2f}  {failed:>12.2f}")
    print(
        "\nRel-NFR, by enumeration of all flip tables; beyond 100 by simulation (standard error at 2.5 %: 0.11)"
    )
    print("     n  pass wrongly  fail wrongly, %")
    for n in (*ENUMERATED, *SIMULATED):
        passed, failed = errors_by_enumeration(n) if n in ENUMERATED else errors_by_simulation(n)
        print(f"{n:>6,}  {100 * passed:>12.2f}  {100 * failed:>12.2f}")
    print(
        "\nerror increase, by enumeration of all negative and positive flips; half of the samples are wrong in both"
    )
    print("     n  pass wrongly  fail wrongly, %")
    for n in INCREASED:
        passed, failed = (100 * worst for worst in errors_of_increase(n))
        print(f"{n:>6,}  {passed:>12.2f}  {failed:>12.2f}")
    print("\nso many more samples as are named decide, % of 2,000 draws (standard error 0.9)")
    for table, kind, times in product(TABLES, LIMITS, (0.7, 1.4)):
        counts = flip_table(table)
        value = kind.value(counts, counts.negative_flips) or 0.0
        limit = value * times if kind.counts_flips else value + (0.01 if times > 1 else -0.01)
        more = more_samples(counts, counts.negative_flips, kind, LEVEL, limit)
        if more is None or decided_at_once(table, kind.key, limit):
            continue
        share = deciding_share(table, kind.key, limit, more, 2000)
        print(
            f"{table!s:<22}  {kind.name:<15}  limit {100 * limit:>6.2f}  {more:>9,} more  {100 * share:>6.1f}"
        )
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


def errors_by_enumeration(n: int) -> tuple[float, float]:
    """The largest chances, over `MODELS`, that a test set of n samples wrongly passes or fails on Rel-NFR.

    The limit is the true Rel-NFR, and all flip tables of n samples are gone through.
    """
    tables = np.array(
        [
            (a, b, c, n - a - b - c)
            for a in range(n + 1)
            for b in range(n + 1 - a)
            for c in range(n + 1 - a - b)
        ]
    )
    ends = np.array([interval_or_all(row) for row in tables.tolist()])
    ways = gammaln(n + 1) - gammaln(tables + 1).sum(axis=1)
    passed, failed = [], []
    for model in MODELS:
        cells, ratio = cells_of(*model)
        chance = np.exp(ways + xlogy(tables, cells).sum(axis=1))
        passed.append(float(chance[ends[:, 1] < ratio].sum()))
        failed.append(float(chance[ends[:, 0] > ratio].sum()))
    return max(passed), max(failed)


def errors_by_simulation(n: int) -> tuple[float, float]:
    """The chances of `errors_by_enumeration`, estimated from `DRAWS` drawn flip tables of each model."""
    rng = np.random.default_rng(n)
    passed, failed = [], []
    for model in MODELS:
        cells, ratio = cells_of(*model)
        ends = np.array([interval_or_all(row) for row in rng.multinomial(n, cells, size=DRAWS).tolist()])
        passed.append(float((ends[:, 1] < ratio).mean()))
        failed.append(float((ends[:, 0] > ratio).mean()))
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


def decided_at_once(table: Cells, key: str, limit: float) -> bool:
    """Whether a flip table decides a limit without further samples."""
    return check_gate(flip_table(table), limits_of(key, limit)).answer != "undecided"


def deciding_share(table: Cells, key: str, limit: float, more: int, draws: int) -> float:
    """The share of draws in which a limit is decided once further samples are added.

    Args:
        table: the flip table.
        key: of the limit.
        limit: its value.
        more: number of samples to add; they are drawn at the rates of the table.
        draws: number of draws.
    """
    rng = np.random.default_rng(0)
    enlarged = rng.multinomial(more, np.array(table) / sum(table), size=draws) + np.array(table)
    kind = next(kind for kind in LIMITS if kind.key == key)
    decided = 0
    for row in enlarged.tolist():
        counts = flip_table(row)
        interval = kind.interval(counts, counts.negative_flips, LEVEL)
        assert interval is not None
        low, high = interval
        decided += high <= limit or low > limit
    return decided / draws


def limits_of(key: str, limit: float) -> Limits:
    """A single limit, decided by the interval at `LEVEL`."""
    return Limits.model_validate({key: limit, "confidence": LEVEL})


def flip_table(row: Cells) -> Counts:
    """The flip table of four counts; they are not checked, for speed."""
    names = ("both_right", "negative_flips", "positive_flips", "both_wrong")
    return Counts.model_construct(**dict(zip(names, row, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
