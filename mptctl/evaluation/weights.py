"""Weighted rates: each sample counts by its weight, which says what a flip of the sample costs."""

from __future__ import annotations

import math
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
from mptctl.evaluation.statistics import exact_interval
from mptctl.files.explained import shown

FloatArray = NDArray[np.float64]
# Draws of the bootstrap, and its fixed seed. Chance then moves an end of an interval by some 3 %
# of the distance between end and value.
DRAWS, SEED = 20_000, 0


def find_weights(column: str, files: Sequence[Path]) -> Weights:
    """Find the column of weights in the first of some files that has it.

    Raises:
        DataError: no file has the column (the message names the columns that there are), or a file cannot be
            read.
    """
    headers = {file: side_headers(file) for file in dict.fromkeys(files)}
    with_column = [file for file, names in headers.items() if column in names]
    if with_column:
        return Weights(f"{shown(column)} of {with_column[0]}", SideTable(with_column[0], [column]))
    raise no_such_column("--weight", headers, column)


def weighted_rates(answers: PairedAnswers, column: str) -> Weighted:
    """Compute NFR, the share lost and both errors, in which each sample of an old class counts by its weight.

    Args:
        answers: paired with weights.
        column: the name of the column of weights, for the report and for messages.

    Raises:
        DataError: the weights of all samples of old classes are zero.
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
        """The weight of the cells `part` as a share of the weight of the cells `of`."""
        inside, squares_inside = weights[of & part, :2].sum(axis=0)
        outside, squares_outside = weights[of & ~part, :2].sum(axis=0)
        if not inside + outside:
            return WeightedRate(value=None, ci95=None)
        ends = bootstrap_interval((inside, squares_inside), (outside, squares_outside), largest)
        return WeightedRate(value=float(inside / (inside + outside)), ci95=ends)

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
    """Compute the mean of the classes' NFR, which is the NFR if each sample weighs 1 / samples of its class.

    Args:
        classes: at least one, each with samples.
    """
    n = np.array([row.n for row in classes], dtype=np.float64)
    flips = np.array([row.negative_flips for row in classes], dtype=np.float64)
    inside, outside = (
        (float((count / n).sum()), float((count / n**2).sum())) for count in (flips, n - flips)
    )
    return WeightedRate(
        value=inside[0] / len(n), ci95=bootstrap_interval(inside, outside, largest=float(1 / n.min()))
    )


def bootstrap_interval(
    inside: tuple[float, float], outside: tuple[float, float], largest: float, confidence: float = 0.95
) -> Interval:
    """Compute the interval of a weighted share by the Bayesian bootstrap, from sums of weights alone.

    In each draw every sample counts by its weight times an exponential number of mean 1 (Rubin, The Bayesian
    bootstrap, Annals of Statistics 9 (1981), 130-134). A sum over samples is drawn at once, as a gamma number
    with the mean and the variance of that sum. For the upper end one sample of the largest weight is added to
    the share, and for the lower end to the rest, as in the gamma intervals of Fay and Feuer (Statistics in
    Medicine 16 (1997), 791-801). So an interval has a width even if no sample counts. If all weights that are
    not zero are equal, more and more draws would come to the ends of Clopper and Pearson (1934), which are
    returned then.

    >>> low, high = bootstrap_interval((0.0, 0.0), (20.0, 20.0), largest=1.0)
    >>> low, round(high, 4)
    (0.0, 0.1684)

    Args:
        inside: sum of weights, and sum of their squares, over the samples that count.
        outside: the same two sums over all other samples.
        largest: the largest weight of a sample.
        confidence: level, two-sided.

    Returns:
        The ends, as fractions; equal arguments give equal ends.
    """
    weight, squares = inside[0] + outside[0], inside[1] + outside[1]
    if math.isclose(squares, largest * weight):  # every weight is the largest one, or zero
        return exact_interval(round(inside[0] / largest), round(weight / largest), confidence)
    rng = np.random.default_rng(SEED)
    part, rest = _draw_sums(rng, *inside), _draw_sums(rng, *outside)
    one_more = largest * rng.standard_exponential(DRAWS)
    total, tail = part + rest + one_more, (1 - confidence) / 2
    low = float(np.quantile(part / total, tail)) if inside[0] else 0.0
    high = float(np.quantile((part + one_more) / total, 1 - tail)) if outside[0] else 1.0
    return low, high


def _draw_sums(rng: np.random.Generator, mean: float, variance: float) -> FloatArray:
    """Draw (DRAWS,) gamma numbers with a mean and a variance; zeros where the mean is zero."""
    if not mean:
        return np.zeros(DRAWS)
    return rng.standard_gamma(mean * mean / variance, DRAWS) * (variance / mean)
