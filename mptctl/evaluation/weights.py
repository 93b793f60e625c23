"""Rates by what a flip of each sample costs, from sums over the cells of the flip table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.flip_report import ClassRow, Weighted, WeightedRate
from mptctl.evaluation.pairing.join import Weights
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.rates import Interval, negative_flips
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.files.explained import shown

FloatArray = NDArray[np.float64]
# Of the bootstrap: an end of an interval then lies within some 3 % of its distance from the value.
DRAWS, SEED = 20_000, 0


def find_weights(column: str, files: Sequence[Path]) -> Weights:
    """Reads the column of the first of some files that has it.

    Raises:
        DataError: no file has it, with those that are there, or the file cannot be read.
    """
    there = {file: side_headers(file) for file in dict.fromkeys(files)}
    having = [file for file, names in there.items() if column in names]
    if having:
        return Weights(f"{shown(column)} of {having[0]}", SideTable(having[0], [column]))
    raise no_such_column("--weight", there, column)


def weighted_rates(answers: PairedAnswers, column: str) -> Weighted:
    """NFR, share lost and errors in which each sample of an old class counts by its weight.

    Raises:
        DataError: all of these weights are zero.
    """
    cells = answers.pairing.cells
    weights, of_old = cells.weights[answers.cells_of_old], answers.cells_of_old
    old, new = cells.right["old"][of_old], cells.right["new"][of_old]
    total, largest = float(weights[:, 0].sum()), float(weights[:, 2].max(initial=0.0))
    if not total:
        raise DataError(
            f"--weight {shown(column)}: the weights of all {int(cells.n[of_old].sum())} samples of old "
            "classes are zero; give those that count a positive one"
        )

    def share(part: NDArray[np.bool_], of: NDArray[np.bool_]) -> WeightedRate:
        (inside, squares), (rest, others) = (
            weights[mask, :2].sum(axis=0) for mask in (of & part, of & ~part)
        )
        if not inside + rest:
            return WeightedRate(value=None, ci95=None)
        ends = bootstrap_interval((inside, squares), (rest, others), largest)
        return WeightedRate(value=float(inside / (inside + rest)), ci95=ends)

    every, flipped = np.ones_like(old), negative_flips(old, new)
    return Weighted(
        column=column,
        total=total,
        nfr=share(flipped, every),
        lost=share(flipped, old),
        er_old=share(~old, every),
        er_new=share(~new, every),
    )


def mean_over_classes(classes: Sequence[ClassRow]) -> WeightedRate:
    """The mean of the classes' NFR: a weighted NFR, where each sample weighs 1 / samples of its class.

    Args:
        classes: at least one, each with samples.
    """
    n = np.array([row.n for row in classes], dtype=np.float64)
    flips = np.array([row.negative_flips for row in classes], dtype=np.float64)
    (inside, squares), (rest, others) = (
        (float((count / n).sum()), float((count / n**2).sum())) for count in (flips, n - flips)
    )
    ends = bootstrap_interval((inside, squares), (rest, others), largest=float(1 / n.min()))
    return WeightedRate(value=inside / len(n), ci95=ends)


def bootstrap_interval(
    inside: tuple[float, float], outside: tuple[float, float], largest: float, confidence: float = 0.95
) -> Interval:
    """Interval of a weighted share by the Bayesian bootstrap, computed from sums alone.

    In each draw every sample counts by an exponential number of mean 1 (Rubin, The Bayesian bootstrap, Annals
    of Statistics 9 (1981), 130-134) times its weight. The sum over many samples is drawn as a gamma number
    with the same mean, the sum of the weights, and variance, the sum of their squares; of equal weights that
    is exact. At its upper end the share has one sample more, of the largest weight, and at its lower end the
    rest has, as in the gamma intervals of Fay and Feuer (Statistics in Medicine 16 (1997), 791-801): a part
    that no sample fell into may have some, and an interval always has a width. Of equal weights the ends are
    those of Clopper and Pearson (1934).

    >>> low, high = bootstrap_interval((0.0, 0.0), (20.0, 20.0), largest=1.0)
    >>> low, round(high, 2)  # Clopper and Pearson have 0.168 of 0 / 20
    (0.0, 0.17)

    Args:
        inside: sum of weights, and of their squares, of the samples that count.
        outside: the same of all others.
        largest: weight of any sample.
        confidence: level, two-sided.

    Returns:
        The ends, as fractions; equal arguments give equal ends.
    """
    rng = np.random.default_rng(SEED)
    part, rest, more = _sums(rng, *inside), _sums(rng, *outside), largest * rng.standard_exponential(DRAWS)
    tail = (1 - confidence) / 2
    low = float(np.quantile(part / (part + rest + more), tail)) if inside[0] else 0.0
    high = float(np.quantile((part + more) / (part + rest + more), 1 - tail)) if outside[0] else 1.0
    return low, high


def _sums(rng: np.random.Generator, mean: float, variance: float) -> FloatArray:
    if not mean:
        return np.zeros(DRAWS)
    return rng.standard_gamma(mean * mean / variance, DRAWS) * (variance / mean)
