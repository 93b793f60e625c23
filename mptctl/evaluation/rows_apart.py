"""Which rows of a table are told apart from the best one, which was chosen by the same numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from mptctl.evaluation.paired_bootstrap import LEVEL, FloatArray, common_variance

# Fixed, so that the same rows get the same marks.
SEED = 3


class SeedRate(NamedTuple):
    """A rate of one training.

    Attributes:
        observed: on the samples themselves.
        draws: (D,) on samples that are drawn again, the same for all trainings.
    """

    observed: float
    draws: FloatArray


# A rate of the trainings of a row, by what pairs them with those of other rows: split and seed.
RowRate = Mapping[Hashable, SeedRate]


@dataclass(frozen=True)
class _Pair:
    """The difference of two rows over the seeds that both have.

    Attributes:
        seeds: how many.
        mean: of the differences.
        seed_variance: of the seeds' differences, with n - 1; 0 for one seed.
        common: the variance that the seeds have in common (`common_variance`).
        noise: (D,) what the draws change in the mean, with the variance `common`.
    """

    seeds: int
    mean: float
    seed_variance: float
    common: float
    noise: FloatArray


def rows_apart(rows: Sequence[RowRate], base: int) -> list[bool | None]:
    """Tell which rows differ from one of them, at a level that allows to choose it by the same numbers.

    The intervals of the differences of all pairs of rows contain the true differences together with
    probability `LEVEL`; two rows are apart where theirs does not contain zero. Each interval is

        mean -+ q sqrt(c + max(2 s^2, v) / n)

    over the n seeds that both rows have. c is the variance that the seeds have in common, v the variance of
    the seeds' differences, and 2 s^2 its mean over all pairs, which is known better than v. q is the quantile
    of the largest difference of a pair, in its standard error, over the draws of the samples; to each draw
    retraining noise of the variance s^2 is added, divided by a drawn estimate of that variance. This is
    Tukey's method with draws in place of the normal distribution (Westfall and Young, Resampling-based
    multiple testing, 1993). Where no two rows share two seeds, s^2 is 0, and only the test draw is noise.

    Args:
        rows: of one section of a table.
        base: index of the row to which the others are compared.

    Returns:
        For each row, True where it is apart from the base; None where the two have no seed in common, or the
        rate is not defined.
    """
    pairs = _pairs_of(rows)
    least = _least_differences(rows, pairs)
    keys = [(min(i, base), max(i, base)) for i in range(len(rows))]
    return [abs(pairs[key].mean) > least[key] if key in pairs else None for key in keys]


def least_differences(rows: Sequence[RowRate]) -> FloatArray:
    """Find, for each pair of R rows, the difference beyond which `rows_apart` tells them apart.

    Returns:
        (R, R), symmetric, 0 for a row and itself; infinite where two rows have no seed in common, or the rate
        is not defined.
    """
    least = np.full((len(rows), len(rows)), np.inf)
    np.fill_diagonal(least, 0.0)
    for (i, j), difference in _least_differences(rows, _pairs_of(rows)).items():
        least[i, j] = least[j, i] = difference
    return least


def _pairs_of(rows: Sequence[RowRate]) -> dict[tuple[int, int], _Pair]:
    """The differences of all pairs of rows that have one, by the indices of the two, the lower one first."""
    return {
        (i, j): pair for i, j in combinations(range(len(rows)), 2) if (pair := _pair_of(rows[i], rows[j]))
    }


def _least_differences(
    rows: Sequence[RowRate], pairs: Mapping[tuple[int, int], _Pair]
) -> dict[tuple[int, int], float]:
    """The difference of each pair beyond which its two rows are apart, see `rows_apart`."""
    with_seeds = [pair for pair in pairs.values() if pair.seeds > 1]
    freedom = sum(pair.seeds - 1 for pair in with_seeds)
    pooled = sum((pair.seeds - 1) * pair.seed_variance for pair in with_seeds) / max(freedom, 1)
    largest = _largest_noise(rows, pairs, pooled)
    factor = float(np.quantile(largest, LEVEL)) if largest.size else 0.0
    return {
        key: factor * math.sqrt(pair.common + max(pooled, pair.seed_variance) / pair.seeds)
        for key, pair in pairs.items()
    }


def _pair_of(one: RowRate, other: RowRate) -> _Pair | None:
    """The difference of two rows; None where they have no seed in common, or it is not defined in one."""
    shared = [each for each in one if each in other]
    values = np.array([one[each].observed - other[each].observed for each in shared])
    if not shared or not np.isfinite(values).all():
        return None
    draws = np.stack([one[each].draws - other[each].draws for each in shared])
    defined = np.isfinite(draws).all(axis=0)
    if not defined.any():
        return None
    common = common_variance(draws[:, defined])
    mean = draws.mean(axis=0)
    deviation = float(np.std(mean[defined]))
    # A draw in which the rate is not defined adds no noise.
    centred = np.where(defined, mean - mean[defined].mean(), 0.0)
    return _Pair(
        seeds=len(shared),
        mean=float(values.mean()),
        seed_variance=float(values.var(ddof=1)) if len(shared) > 1 else 0.0,
        common=common,
        noise=centred * (math.sqrt(common) / deviation if deviation else 0.0),
    )


def _largest_noise(
    rows: Sequence[RowRate], pairs: Mapping[tuple[int, int], _Pair], pooled: float
) -> FloatArray:
    """The largest noise of all pairs in each draw, in standard errors: (D,).

    Args:
        rows: as `rows_apart`.
        pairs: the differences, by the indices of their rows.
        pooled: variance of the difference of two trainings of one seed; 0: it is not known.
    """
    if not pairs:
        return np.zeros(0)
    draws = len(next(iter(pairs.values())).noise)
    rng = np.random.default_rng(SEED)
    trainings = rng.normal(size=(len(rows), draws)) * math.sqrt(pooled / 2)
    freedom = _degrees_of_freedom(rows)
    estimate = np.sqrt(rng.chisquare(freedom, size=draws) / freedom)
    largest = np.zeros(draws)
    for (i, j), pair in pairs.items():
        error = math.sqrt(pair.common + pooled / pair.seeds)
        if error:
            # The draws of the samples have the variance `common`, the trainings `pooled` / seeds.
            retraining = (trainings[i] - trainings[j]) / math.sqrt(pair.seeds) / estimate
            np.maximum(largest, np.abs(pair.noise + retraining) / error, out=largest)
    return largest


def _degrees_of_freedom(rows: Sequence[RowRate]) -> int:
    """Those of the variance between trainings, once the mean of each row and of each seed is taken off."""
    several = [row for row in rows if len(row) > 1]
    seeds = {seed for row in several for seed in row}
    return max(1, sum(map(len, several)) - len(several) - len(seeds) + 1)
