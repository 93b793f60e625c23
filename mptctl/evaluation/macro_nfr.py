"""The mean of NFR over the old classes, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import ClassRow, MacroRate
from mptctl.evaluation.rates import Interval
from mptctl.evaluation.statistics import exact_interval

FloatArray = NDArray[np.float64]
# Draws of the bootstrap, and its fixed seed. Chance then moves an end of an interval by some 3 %
# of the distance between end and value.
DRAWS, SEED = 20_000, 0


def mean_over_classes(classes: Sequence[ClassRow]) -> MacroRate:
    """Compute the mean of the classes' NFR, which is the NFR if each sample weighs 1 / samples of its class.

    Args:
        classes: at least one, each with samples.
    """
    n = np.array([row.n for row in classes], dtype=np.float64)
    flips = np.array([row.negative_flips for row in classes], dtype=np.float64)
    inside, outside = (
        (float((count / n).sum()), float((count / n**2).sum())) for count in (flips, n - flips)
    )
    return MacroRate(
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
