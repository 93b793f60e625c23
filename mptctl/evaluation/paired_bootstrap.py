"""Rates of updates on samples that are drawn again, also where they choose a bias, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mptctl.names import Part

# Draws, and the two-sided level of the interval: with 2,000 draws fifty lie beyond each of its ends.
RESAMPLES, LEVEL = 2000, 0.95
# Of the generators, so that the same numbers give the same marks; each part has draws of its own.
SEEDS: dict[Part, int] = {"train": 0, "val": 1, "test": 2}
# Numbers of one block of draws: 16 MB in single precision, in which counts below 2^24 are exact.
BLOCK = 4_000_000

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
# Drawn counts: single precision, or double where each sample is there once.
Weights = NDArray[np.floating]


@dataclass(frozen=True)
class WrongByBias:
    """Wrong answers of one update to one part, as a constant is taken off the logits of the new classes.

    Attributes:
        gap: (N,) the bias from which on a sample is answered with its best old class.
        as_new, as_old: (N,) wrong answers below that bias, and from it on.
    """

    gap: FloatArray
    as_new: BoolArray
    as_old: BoolArray

    def __len__(self) -> int:
        return len(self.gap)

    def at(self, bias: float) -> BoolArray:
        """(N,) wrong answers at one bias."""
        return np.where(self.gap > bias, self.as_new, self.as_old)


@dataclass(frozen=True)
class BiasAtError:
    """The largest bias at which an update errs no more on validation than another one.

    Attributes:
        answers: of the update to the validation samples.
        rival_wrong: (N,) wrong answers of the other one, as it is, to the same samples.
        least: smallest bias; minus infinity where one may also be put on the new classes.
    """

    answers: WrongByBias
    rival_wrong: BoolArray
    least: float

    def choose(self, weights: Weights) -> FloatArray:
        """(D,) bias that is chosen in each of (D, N) drawn validation parts."""
        return largest_bias(
            self.answers, weights, weights @ self.rival_wrong / len(self.answers), self.least
        )[0]


@dataclass(frozen=True)
class CountedUpdate:
    """An update and the old model that it replaces, on the samples on which their flips are counted.

    Attributes:
        answers: of the update.
        of_old: (N,) samples of old classes.
        old_right: (N,) right answers of the old model.
        part: which part these samples are.
        bias: that is taken off.
        choice: how it was chosen on validation; None where no sample had a part in it.
    """

    answers: WrongByBias
    of_old: BoolArray
    old_right: BoolArray
    part: Part
    bias: float = 0.0
    choice: BiasAtError | None = None

    def rates(self, weights: Weights, biases: FloatArray) -> dict[str, FloatArray]:
        """Rates on (D, N) drawn samples with (D,) biases: (D,) nfr, rel_nfr, er_old, er_all, or NaN.

        Only samples whose gap lies among the biases are answered otherwise in one draw than in another.
        """
        gap, kept = self.answers.gap, self.of_old & self.old_right
        among = np.stack([kept, self.of_old, np.ones_like(kept)], axis=1).astype(weights.dtype)
        fixed = self.answers.at(biases.min())[:, None] * among
        sums = weights @ np.concatenate([fixed, among[:, :2]], axis=1)
        moving = np.flatnonzero(
            (gap > biases.min()) & (gap <= biases.max()) & (self.answers.as_new != self.answers.as_old)
        )
        change = self.answers.as_old[moving].astype(weights.dtype) - self.answers.as_new[moving]
        moved = weights[:, moving] * (gap[moving] <= biases[:, None])
        sums[:, :3] += moved @ (change[:, None] * among[moving])
        flips, wrong_old, wrong, old_right, n_old = sums.astype(np.float64).T
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "nfr": flips / n_old,
                "rel_nfr": flips * n_old / (old_right * wrong_old),
                "er_old": wrong_old / n_old,
                "er_all": wrong / len(gap),
            }


def largest_bias(
    answers: WrongByBias, weights: Weights, error: FloatArray, least: float = 0.0
) -> tuple[FloatArray, BoolArray]:
    """The largest bias at which an update errs no more than it may, in each of some draws of its samples.

    >>> answers = WrongByBias(np.array([1.0, 2.0]), np.array([True, False]), np.array([False, True]))
    >>> # From a bias of 1 on both answers are right, from 2 on the second is wrong.
    >>> biases, reached = largest_bias(answers, np.ones((1, 2)), np.array([0.0]))
    >>> biases.tolist(), reached.tolist()
    ([1.0], [True])

    Args:
        answers: of the update; at least one.
        weights: (D, N) how often each sample was drawn.
        error: (D,) what it may err, a fraction of the samples.
        least: the smallest bias; minus infinity where one may also be put on the new classes.

    Returns:
        (D,) biases, each one of the gaps or the least; and (D,) draws in which that error is reached: where
        it is not, the bias is the one with the lowest error, of several the smallest.
    """
    gap = answers.gap
    if least == -np.inf:  # below every gap: each sample that can be answered with a new class is
        least = float(np.nextafter(gap[np.isfinite(gap)].min(initial=0.0), -np.inf))
    places = np.append(least, np.unique(gap[gap > least]))
    # Errors change only where a sample goes over to an old class and becomes right or wrong by it.
    changing = np.flatnonzero((gap > least) & (answers.as_old != answers.as_new))
    order = changing[np.argsort(gap[changing], kind="stable")]
    steps, ends = np.unique(gap[order][::-1], return_index=True)
    errors = np.empty((len(weights), steps.size + 1), dtype=weights.dtype)
    errors[:, 0] = weights @ answers.at(least)
    change = answers.as_old[order].astype(weights.dtype) - answers.as_new[order]
    errors[:, 1:] = errors[:, :1] + np.cumsum(weights[:, order] * change, axis=1)[:, order.size - 1 - ends]
    fits = errors / len(answers) <= error[:, None]
    reached: BoolArray = np.any(fits, axis=1)
    largest = steps.size - fits[:, ::-1].argmax(axis=1)
    first = np.append(least, steps)
    last = places[np.searchsorted(places, np.append(steps, np.inf)) - 1]
    return np.where(reached, last[largest], first[errors.argmin(axis=1)]), reached


def redraw(updates: Sequence[CountedUpdate], resamples: int = RESAMPLES) -> list[dict[str, FloatArray]]:
    """Draws rates of updates: samples with replacement, each bias chosen again on drawn validation samples.

    All updates see the same draws of a part, also those of other seeds where it has as many samples: what
    they have in common is in each of them (Efron and Tibshirani, An introduction to the bootstrap, 1993,
    chapter 8).

    Args:
        updates: of one table.
        resamples: how many draws.

    Returns:
        For each update, by rate (nfr, rel_nfr, er_old, er_all): (resamples,) values; NaN where a draw has
        none.
    """
    sizes = {(update.part, len(update.answers)) for update in updates}
    sizes |= {("val", len(update.choice.answers)) for update in updates if update.choice is not None}
    generators = {key: np.random.default_rng([SEEDS[key[0]], key[1]]) for key in sorted(sizes)}
    block = max(1, BLOCK // max(n for _, n in sizes))
    pieces: list[list[dict[str, FloatArray]]] = [[] for _ in updates]
    for start in range(0, resamples, block):
        draws = min(block, resamples - start)
        weights = {key: draw_weights(rng, draws, key[1]) for key, rng in generators.items()}
        for found, update in zip(pieces, updates, strict=True):
            found.append(rates_of_draws(update, weights))
    return [{rate: np.concatenate([piece[rate] for piece in found]) for rate in found[0]} for found in pieces]


def rates_of_draws(
    update: CountedUpdate, weights: Mapping[tuple[Part, int], Weights]
) -> dict[str, FloatArray]:
    """Rates of one update, by the weights of each part of so many samples."""
    counted = weights[update.part, len(update.answers)]
    if update.choice is None:
        return update.rates(counted, np.full(len(counted), update.bias))
    return update.rates(counted, update.choice.choose(weights["val", len(update.choice.answers)]))


def draw_weights(rng: np.random.Generator, draws: int, n: int) -> Weights:
    """(draws, n) how often each of n samples is drawn in n draws with replacement."""
    rows = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(rows.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)


def observed(update: CountedUpdate) -> dict[str, float]:
    """The rates themselves, of which `redraw` gives draws; NaN where one is not defined."""
    rates = update.rates(np.ones((1, len(update.answers))), np.array([update.bias]))
    return {rate: float(value[0]) for rate, value in rates.items()}


def interval(values: Sequence[float], draws: FloatArray, level: float = LEVEL) -> tuple[float, float] | None:
    """Interval of the mean over seeds of a difference, two-sided.

    Of one seed it is the percentile interval of the draws, which says nothing of another training. Of several
    it is Student's interval over their differences, n - 1 degrees of freedom, and where the percentile
    interval of the draws reaches farther, as when all seeds share their test samples, that one.

    >>> [round(end, 2) for end in interval([0.1], np.array([0.0, 0.1, 0.2]), level=0.5)]
    [0.05, 0.15]

    Args:
        values: of each seed.
        draws: (D,) of the mean over seeds, with these seeds and other samples.
        level: of the interval.

    Returns:
        Its ends; None where no draw has a value, or a seed of several has none.
    """
    defined = draws[np.isfinite(draws)]
    if not defined.size or (len(values) > 1 and not np.isfinite(values).all()):
        return None
    low, high = (float(end) for end in np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]))
    if len(values) == 1:
        return low, high
    mean, n = float(np.mean(values)), len(values)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return min(low, mean - half), max(high, mean + half)
