"""The paired bootstrap: rates of updates on redrawn samples, and intervals of differences between updates.

The bias of an update is chosen again on redrawn validation samples, so that its choice is part of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from mptctl.names import Part

# Number of draws, and two-sided level of the interval: of 2,000 draws fifty lie beyond each of its ends.
RESAMPLES, LEVEL = 2000, 0.95
# Fixed seeds, so that the same input gives the same interval; each part of the data has draws of its own.
SEEDS: dict[Part, int] = {"train": 0, "val": 1, "test": 2}
# Numbers in a block of draws: 16 MB in single precision, which holds counts below 2^24 exactly.
BLOCK = 4_000_000

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
# (D, N) how often each of N samples was drawn in each of D draws.
Weights = NDArray[np.floating]


@dataclass(frozen=True)
class WrongByBias:
    """Wrong answers of one update to N samples at every bias taken off the logits of the new classes.

    Attributes:
        gap: (N,) the smallest bias at which a sample is answered with an old class.
        as_new: (N,) True where the answer below that bias is wrong.
        as_old: (N,) True where the answer from that bias on is wrong.
    """

    gap: FloatArray
    as_new: BoolArray
    as_old: BoolArray

    def __len__(self) -> int:
        return len(self.gap)

    def at(self, bias: float) -> BoolArray:
        """(N,) True where the answer at one bias is wrong."""
        return np.where(self.gap > bias, self.as_new, self.as_old)


class SortedGaps(NamedTuple):
    """Samples in the order in which their answers change as a bias grows; those of one gap change together.

    Attributes:
        order: (M,) indices of the samples.
        last: (S,) where in `order` the last sample of each of S different gaps is.
    """

    order: IntArray
    last: IntArray


def sort_gaps(gap: FloatArray, moving: BoolArray) -> SortedGaps:
    """Sort some samples by their gaps.

    Args:
        gap: (N,) of all samples.
        moving: (N,) True for samples that are sorted.
    """
    chosen = np.flatnonzero(moving)
    order = chosen[np.argsort(gap[chosen], kind="stable")]
    sorted_gaps = gap[order]
    is_last = np.append(sorted_gaps[1:] != sorted_gaps[:-1], True)[: order.size]  # of no sample: nothing
    return SortedGaps(order, np.flatnonzero(is_last))


@dataclass(frozen=True)
class BiasAtError:
    """The rule that gives an update the largest bias at which it errs no more than a rival on validation.

    Attributes:
        answers: the update's wrong answers to the N validation samples.
        rival_wrong: (N,) True where the rival, without a bias, is wrong.
        least: smallest bias that may be chosen; minus infinity also allows negative biases.
    """

    answers: WrongByBias
    rival_wrong: BoolArray
    least: float

    def choose(self, weights: Weights) -> FloatArray:
        """Choose the (D,) biases in D draws of the validation samples, given as (D, N) weights."""
        rival_error = weights @ self.rival_wrong / len(self.answers)
        return largest_bias(self.answers, weights, rival_error, self.least)[0]


@dataclass(frozen=True)
class CountedUpdate:
    """An update and the old model that it replaces, on the N samples on which flips are counted.

    Attributes:
        answers: the update's wrong answers.
        of_old: (N,) True for samples of old classes.
        old_right: (N,) True where the old model is right.
        part: the part of the data that these samples are.
        bias: the bias taken off the update's logits of new classes.
        choice: the rule by which the bias was chosen on validation; None where it was given.
    """

    answers: WrongByBias
    of_old: BoolArray
    old_right: BoolArray
    part: Part
    bias: float = 0.0
    choice: BiasAtError | None = None

    def rates(self, weights: Weights, biases: FloatArray) -> dict[str, FloatArray]:
        """Compute the rates in D draws of the samples.

        Args:
            weights: (D, N) how often each sample was drawn.
            biases: (D,) the update's bias in each draw.

        Returns:
            (D,) fractions by name: nfr, rel_nfr, er_old, er_all. NaN where a rate is not defined.
        """
        gap = self.answers.gap
        kept = self.of_old & self.old_right
        # Columns: wrong answers among these samples are flips, errors on old classes, and all errors.
        groups = np.stack([kept, self.of_old, np.ones_like(kept)], axis=1).astype(weights.dtype)
        wrong_at_least = self.answers.at(biases.min())[:, None] * groups
        # (D, 5): wrong answers by the three columns at the least bias, then the samples of the first two.
        sums = weights @ np.concatenate([wrong_at_least, groups[:, :2]], axis=1)
        # Only samples whose gap lies among the biases are right in one draw and wrong in another.
        moving = np.flatnonzero(
            (gap > biases.min()) & (gap <= biases.max()) & (self.answers.as_new != self.answers.as_old)
        )
        change = self.answers.as_old[moving].astype(weights.dtype) - self.answers.as_new[moving]
        moved = weights[:, moving] * (gap[moving] <= biases[:, None])
        sums[:, :3] += moved @ (change[:, None] * groups[moving])
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
    """Find the largest bias at which an update errs no more than it may, in each of D draws of its samples.

    >>> answers = WrongByBias(np.array([1.0, 2.0]), np.array([True, False]), np.array([False, True]))
    >>> # From a bias of 1 on both answers are right, from 2 on the second is wrong.
    >>> biases, reached = largest_bias(answers, np.ones((1, 2)), np.array([0.0]))
    >>> biases.tolist(), reached.tolist()
    ([1.0], [True])

    Args:
        answers: the update's wrong answers to at least one sample.
        weights: (D, N) how often each sample was drawn.
        error: (D,) the error that is allowed, a fraction of the samples.
        least: smallest bias that may be chosen; minus infinity allows negative ones.

    Returns:
        (D,) biases, each a gap or `least`, and (D,) True where the allowed error is reached. Where it is not
        reached, the bias is the smallest one with the lowest error.
    """
    gap = answers.gap
    if least == -np.inf:  # just below every gap: each sample is answered with a new class if it can be
        least = float(np.nextafter(gap[np.isfinite(gap)].min(initial=0.0), -np.inf))
    candidates = np.append(least, np.unique(gap[gap > least]))
    # The error changes only at gaps where an answer becomes right or wrong.
    order, last_of_step = sort_gaps(gap, (gap > least) & (answers.as_old != answers.as_new))
    steps = gap[order][last_of_step]  # each step begins at a gap
    errors = np.empty((len(weights), steps.size + 1), dtype=weights.dtype)
    errors[:, 0] = weights @ answers.at(least)
    change = answers.as_old[order].astype(weights.dtype) - answers.as_new[order]
    errors[:, 1:] = errors[:, :1] + np.cumsum(weights[:, order] * change, axis=1)[:, last_of_step]
    fits = errors / len(answers) <= error[:, None]
    reached: BoolArray = np.any(fits, axis=1)
    last_that_fits = steps.size - fits[:, ::-1].argmax(axis=1)
    # A step is a range of biases with one error: from its first candidate to its last.
    first = np.append(least, steps)
    last = candidates[np.searchsorted(candidates, np.append(steps, np.inf)) - 1]
    return np.where(reached, last[last_that_fits], first[errors.argmin(axis=1)]), reached


def redraw_rates(updates: Sequence[CountedUpdate], resamples: int = RESAMPLES) -> list[dict[str, FloatArray]]:
    """Compute the rates of updates on samples that are drawn with replacement.

    In each draw, a bias that was chosen on validation is chosen again on redrawn validation samples. All
    updates see the same draws of parts of equal size, other seeds included, so that noise they have in common
    cancels in differences (Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 8).

    Args:
        updates: of one table.
        resamples: how many draws.

    Returns:
        For each update, by rate (nfr, rel_nfr, er_old, er_all): (resamples,) values; NaN where the rate of a
        draw is not defined.
    """
    sizes = {(update.part, len(update.answers)) for update in updates}
    sizes |= {("val", len(update.choice.answers)) for update in updates if update.choice is not None}
    generators = {(part, n): np.random.default_rng([SEEDS[part], n]) for part, n in sorted(sizes)}
    block = max(1, BLOCK // max(n for _, n in sizes))
    blocks_of_updates: list[list[dict[str, FloatArray]]] = [[] for _ in updates]
    for start in range(0, resamples, block):
        draws = min(block, resamples - start)
        weights = {(part, n): draw_weights(rng, draws, n) for (part, n), rng in generators.items()}
        for blocks, update in zip(blocks_of_updates, updates, strict=True):
            blocks.append(rates_of_draws(update, weights))
    return [
        {rate: np.concatenate([each[rate] for each in blocks]) for rate in blocks[0]}
        for blocks in blocks_of_updates
    ]


def rates_of_draws(
    update: CountedUpdate, weights: Mapping[tuple[Part, int], Weights]
) -> dict[str, FloatArray]:
    """Compute the rates of one update in D draws, its bias chosen again in each draw if it was chosen.

    Args:
        update: the update.
        weights: (D, N) how often each sample was drawn, by part and N.

    Returns:
        (D,) values by rate, as `CountedUpdate.rates`.
    """
    counted = weights[update.part, len(update.answers)]
    if update.choice is None:
        return update.rates(counted, np.full(len(counted), update.bias))
    return update.rates(counted, update.choice.choose(weights["val", len(update.choice.answers)]))


def draw_weights(rng: np.random.Generator, draws: int, n: int) -> Weights:
    """Draw n of n samples with replacement, `draws` times: (draws, n) how often each sample was drawn."""
    rows = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(rows.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)


def observed_rates(update: CountedUpdate) -> dict[str, float]:
    """Compute the rates of an update on the samples as they are, each drawn once; NaN if not defined."""
    rates = update.rates(np.ones((1, len(update.answers))), np.array([update.bias]))
    return {rate: float(value[0]) for rate, value in rates.items()}


def interval_of_mean(
    values: Sequence[float], draws: FloatArray, level: float = LEVEL
) -> tuple[float, float] | None:
    """Compute the two-sided interval of the mean over seeds of a difference between two updates.

    With one seed it is the percentile interval of the draws: what another test draw would change with the
    same two trainings. With n seeds, at least three, it is what another test draw and other trainings would
    change; the two variances are added:

        mean -+ sqrt(t^2 s^2 / n + z^2 c)

    s is the standard deviation of the seeds' differences, t Student's quantile with n - 1 degrees of freedom,
    z the normal quantile, and c the variance that all seeds have in common, since they share test samples
    (`common_variance`).

    >>> [round(end, 2) for end in interval_of_mean([0.1], np.array([[0.0, 0.1, 0.2]]), level=0.5)]
    [0.05, 0.15]

    Args:
        values: (S,) the difference of each seed.
        draws: (S, D) likewise in each draw of the samples; NaN where it is not defined.
        level: of the interval, a fraction.

    Returns:
        The ends; None for two seeds, where no draw has a value, and where one of several seeds has none.
    """
    defined = draws[:, np.isfinite(draws).all(axis=0)]
    n = len(values)
    if n == 2 or not defined.size or (n > 1 and not np.isfinite(values).all()):
        return None
    if n == 1:
        low, high = (float(end) for end in np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]))
        return low, high
    student = float(stdtrit(n - 1, (1 + level) / 2))
    normal = float(ndtri((1 + level) / 2))
    retraining = student**2 * float(np.var(values, ddof=1)) / n
    half = math.sqrt(retraining + normal**2 * common_variance(defined))
    mean = float(np.mean(values))
    return mean - half, mean + half


def common_variance(draws: FloatArray) -> float:
    """Estimate the variance that a difference has in common over seeds, since they share test samples.

    It is the mean covariance of the draws of two seeds, at least 0; of one seed, the variance of its draws.
    The standard deviation of the seeds' differences does not show it, since it moves all of them alike.

    >>> round(common_variance(np.array([[0.0, 0.1, 0.2], [0.3, 0.4, 0.5]])), 6)  # the seeds move together
    0.006667

    Args:
        draws: (S, D) the difference of each seed in each draw of the samples, all of them defined.
    """
    seeds = len(draws)
    if seeds == 1:
        return float(np.var(draws))
    covariances = float(np.var(draws.sum(axis=0)) - np.var(draws, axis=1).sum())
    return max(0.0, covariances / (seeds * (seeds - 1)))
