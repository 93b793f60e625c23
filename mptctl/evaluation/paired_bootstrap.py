"""Is the difference of two methods more than noise? A paired bootstrap over seeds and over samples within them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Draws, and the two-sided level of the interval: with 2,000 draws fifty lie beyond each of its ends.
RESAMPLES, LEVEL = 2000, 0.95
# Of the generator, so that the same numbers give the same marks.
SEED = 0

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def joint_cells(of_old: BoolArray, old_right: BoolArray, one: BoolArray, other: BoolArray) -> IntArray:
    """(16,) samples of each kind: all that the rates of two methods on one test set depend on.

    Args:
        of_old: (N,) samples of old classes. old_right: (N,) right answers of the old model.
        one, other: (N,) right answers of the two methods.
    """
    kind = 8 * of_old + 4 * old_right + 2 * one + 1 * other
    return np.bincount(kind.astype(np.int64), minlength=16)


def differences(cells: Sequence[IntArray], resamples: int = RESAMPLES) -> dict[str, FloatArray]:
    """Draws of the difference of two methods' rates, the mean over seeds of the one minus that of the other.

    Seeds are drawn with replacement first, then samples within each drawn seed, the same for both methods. Drawing
    samples with replacement and counting them by kind is one draw of a multinomial distribution (Efron and
    Tibshirani, An introduction to the bootstrap, 1993, chapter 5). With one seed only samples are drawn.

    Args:
        cells: for each seed, `joint_cells`.
        resamples: how many draws.

    Returns:
        By rate (nfr, rel_nfr, er_old, er_all): (resamples,) differences; NaN where a draw leaves it undefined.
    """
    rng = np.random.default_rng(SEED)
    seeds = len(cells)
    drawn = rng.integers(seeds, size=(resamples, seeds))
    counts = np.empty((resamples, seeds, 16))
    for seed, found in enumerate(cells):
        at = drawn == seed
        counts[at] = rng.multinomial(int(found.sum()), found / found.sum(), size=int(at.sum()))
    return {name: found.mean(axis=1) for name, found in _of_each_seed(counts).items()}


def observed(cells: Sequence[IntArray]) -> dict[str, float]:
    """The difference itself, of which `differences` are draws; NaN where a seed leaves it undefined."""
    return {name: float(found.mean()) for name, found in _of_each_seed(np.array(cells)).items()}


def interval(draws: FloatArray, level: float = LEVEL) -> tuple[float, float] | None:
    """Percentile interval of a difference, over the draws that have one; None where none has."""
    defined = draws[np.isfinite(draws)]
    if not defined.size:
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def is_noise(draws: FloatArray, level: float = LEVEL) -> bool:
    """Whether the percentile interval of a difference holds zero; also where no draw has one."""
    ends = interval(draws, level)
    return ends is None or ends[0] <= 0 <= ends[1]


def _of_each_seed(counts: FloatArray | IntArray) -> dict[str, FloatArray]:
    """Differences of two methods' rates: (..., 16) counts to (...,) each."""
    one, other = _rates(counts, 2), _rates(counts, 1)
    return {name: one[name] - other[name] for name in one}


def _rates(counts: FloatArray | IntArray, bit: int) -> dict[str, FloatArray]:
    """Rates of the method whose right answers are a bit of the kind; (..., 16) counts to (...,) each."""
    kinds = np.arange(16)
    of_old, old_right, wrong = (kinds & 8) > 0, (kinds & 4) > 0, (kinds & bit) == 0

    def number(which: BoolArray) -> FloatArray:
        total: FloatArray = counts[..., which].sum(axis=-1)
        return total

    n_old, flips = number(of_old), number(of_old & old_right & wrong)
    wrong_old, kept = number(of_old & wrong), number(of_old & old_right)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "nfr": flips / n_old,
            "rel_nfr": flips * n_old / (kept * wrong_old),
            "er_old": wrong_old / n_old,
            "er_all": number(wrong) / counts.sum(axis=-1),
        }
