"""Choice of biases to take off the new classes' logits so that a budget of flips or of error is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import bdtr

from mptctl.errors import DataError, GateFailed, UsageError
from mptctl.evaluation.bias.sweep import BiasSteps
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.decision import ROUNDING
from mptctl.evaluation.paired_bootstrap import BoolArray, FloatArray, IntArray
from mptctl.evaluation.statistics import exact_interval, most_within, upper_bounds

# Chosen: a limit that fewer than this share of validation parts would meet is near the least NFR.
OFTEN = 0.8
# Remedy for flips between old classes: no shift heals these, and k acts only between old and new classes.
FEWER_BETWEEN_OLD = "train an update with fewer flips between old classes (by MPT, if it was trained plainly)"

# Number of errors or of flips, for one bias or for an array of them.
Price = TypeVar("Price", int, IntArray)


@dataclass(frozen=True)
class Budget:
    """The limit that the choice of a bias or of a training must keep: on NFR or on the error increase.

    Attributes:
        max_nfr: limit on NFR, a fraction. The upper bound of NFR must keep it, and among the choices that do,
            the one with the least error is taken. None if the other limit is set.
        max_er_increase: how much the error on all classes may rise, a fraction. Among the choices that keep
            it, the one with the least NFR is taken. None if the other limit is set.
        confidence: level of the two-sided interval whose upper end must keep a limit on NFR.
        epochs: number of epochs of which the same samples chose the best; each gets an equal part of the
            error, 1 - confidence (Bonferroni's correction). 1 where they chose no epoch.
    """

    max_nfr: float | None = None
    max_er_increase: float | None = None
    confidence: float = 0.95
    epochs: int = 1

    @property
    def limit(self) -> float:
        """The limit that is set, a fraction."""
        return next(limit for limit in (self.max_nfr, self.max_er_increase) if limit is not None)

    def level(self, series: int = 1) -> float:
        """Compute the level of one bound with which all bounds hold together at `confidence` (Bonferroni).

        Args:
            series: in how many series of trainings the best choice is looked for.

        >>> round(Budget(max_nfr=0.02, epochs=5).level(series=2), 6)
        0.995
        """
        return 1 - (1 - self.confidence) / (series * self.epochs)

    def in_order(self, errors: Price, flips: Price) -> tuple[Price, Price]:
        """Order two costs by priority: first the one to make least, then the one that decides between equals.

        With a limit on NFR that is (errors, flips), else (flips, errors).
        """
        return (errors, flips) if self.max_nfr is not None else (flips, errors)

    def most_flips(self, samples: int, series: int) -> int:
        """Compute the most flips that still show that the limit on NFR, which must be set, is kept.

        Args:
            samples: validation samples of old classes, at least one.
            series: as for `level`.

        Raises:
            UsageError: there are too few samples: even without a flip they would not show it.

        >>> Budget(max_nfr=0.02).most_flips(1000, series=1)
        11
        """
        level = self.level(series)
        most = most_within(self.limit + ROUNDING, samples, level)
        if most < 0:
            bound = exact_interval(0, samples, level)[1]
            raise UsageError(
                f"--max-nfr {100 * self.limit:g}: {samples:,} validation pictures of old classes cannot show "
                f"it: without a single flip the bound is {100 * bound:.2f} %; raise the budget, or hold out "
                "more pictures"
            )
        return most


@dataclass(frozen=True)
class BiasLine:
    """All biases that new classes can have in common, and the errors and flips of each on some samples.

    Attributes:
        samples: the samples.
        steps: the S ranges of biases within which no answer changes, with their errors and flips.
        bounds: (S,) upper bound of NFR in each step.
        biases: (S,) the middle of each step; 0 for the first step, which is the model as it is.
        wide: (S,) True for steps so wide that rounding of the bias does not lead out of them.
    """

    samples: ValidationSamples
    steps: BiasSteps
    bounds: FloatArray
    biases: FloatArray
    wide: BoolArray

    @property
    def wrong(self) -> IntArray:
        """(S,) how many answers are wrong, to samples of all classes."""
        return self.steps.wrong_old + self.steps.wrong_new

    @property
    def more_wrong(self) -> IntArray:
        """(S,) how many more answers are wrong than without a bias."""
        return np.asarray(self.wrong - self.wrong[0])

    def allowed(self, budget: Budget) -> IntArray:
        """The indices of the steps that keep a budget; empty where no step does.

        The number of steps needs no correction of the level. NFR never rises as a bias grows, so this is
        fixed-sequence testing: from the largest bias down to the first that fails.
        """
        fits = self.wide.copy()
        if budget.max_nfr is not None:
            fits &= self.bounds <= budget.max_nfr + ROUNDING
        if budget.max_er_increase is not None:
            fits &= self.more_wrong <= (budget.max_er_increase + ROUNDING) * len(self.samples)
        return np.flatnonzero(fits)

    def best(self, budget: Budget) -> int | None:
        """The index of the step that meets a budget best; None where no step keeps the budget.

        The best step has the least error with a limit on NFR, the fewest flips with a limit on the error. The
        other of the two decides between equals, and then the smaller bias.
        """
        steps = self.allowed(budget)
        if not steps.size:
            return None
        first, second = budget.in_order(self.wrong[steps], self.steps.flips[steps])
        best_first = np.lexsort((steps, second, first))
        return int(steps[best_first[0]])


@dataclass(frozen=True)
class BiasChoice:
    """A chosen bias, common to all new classes.

    Attributes:
        line: all biases that were tried.
        step: index of the chosen one's step.
        level: level of the intervals that gave the bounds.
    """

    line: BiasLine
    step: int
    level: float

    @property
    def bias(self) -> float:
        """The constant that is subtracted from the logits of all new classes."""
        return float(self.line.biases[self.step])


def choose_bias(samples: ValidationSamples, budget: Budget) -> BiasChoice:
    """Find the bias that keeps a budget with the least error, or with the fewest flips (see `Budget`).

    Args:
        samples: the validation part.
        budget: the limit to keep.

    Raises:
        DataError: no sample is of an old class.
        GateFailed: no bias meets the budget; the message names the least NFR, or increase, that can be had.
    """
    if not samples.n_old:
        raise DataError("the validation part has no picture of an old class: nothing there can flip")
    level = budget.level()
    line = bias_line(samples, level)
    step = line.best(budget)
    if step is None:
        raise GateFailed(_unmet_message(line, budget))
    return BiasChoice(line, step, level)


def barely_met_warning(choice: BiasChoice, budget: Budget) -> str | None:
    """Return a warning where the limit on NFR is near the least NFR that any bias reaches; else None."""
    if budget.max_nfr is None:
        return None
    flips = int(choice.line.steps.flips[-1])
    n = choice.line.samples.n_old
    return near_least_warning(budget.max_nfr, flips, n, choice.level, "a shift", FEWER_BETWEEN_OLD)


def near_least_warning(
    max_nfr: float, flips: int, n: int, level: float, means: str, remedy: str
) -> str | None:
    """Return a warning where a limit on NFR is near the least NFR that can be reached; else None.

    The limit is near if fewer than `OFTEN` of the validation parts of this size, drawn at the least NFR that
    was seen, would meet it. A choice that meets such a limit owes this to a lucky draw.

    Args:
        max_nfr: the limit, a fraction.
        flips: the fewest flips that were seen.
        n: validation samples of old classes on which they were counted.
        level: of the two-sided interval whose upper end must keep the limit.
        means: what reached this number of flips, such as ``a shift``.
        remedy: what lowers the least NFR, as an imperative.
    """
    chance = float(bdtr(most_within(max_nfr + ROUNDING, n, level), n, flips / n))
    if chance >= OFTEN:
        return None
    return (
        f"--max-nfr {100 * max_nfr:g}: is near the least NFR that {means} can reach here, "
        f"{100 * flips / n:.2f} % ({flips} of {n:,}): about {100 * chance:.0f} % of validation parts of this "
        "size would meet it, and a model chosen so near the limit exceeds its budget more often than the "
        f"interval level says; hold out more pictures, or {remedy}"
    )


def bias_line(samples: ValidationSamples, level: float) -> BiasLine:
    """Count errors and flips of every bias common to all new classes, and bound NFR.

    Args:
        samples: that are counted.
        level: of the two-sided interval whose upper end is the bound.
    """
    steps = samples.steps()
    margin = samples.rounding
    ends = np.append(steps.biases[1:], steps.biases[-1] + 4 * margin)
    biases = (steps.biases + ends) / 2
    biases[0] = 0.0  # the model as it is
    wide = ends - steps.biases > 2 * margin
    wide[0] = True
    bounds = upper_bounds(steps.flips, samples.n_old, level)
    return BiasLine(samples=samples, steps=steps, bounds=bounds, biases=biases, wide=wide)


def _unmet_message(line: BiasLine, budget: Budget) -> str:
    """The message of a budget that no bias keeps, with the least NFR or error increase that some bias has."""
    if budget.max_nfr is None:
        least = int(line.more_wrong.min())
        n = len(line.samples)
        return (
            f"--max-er-increase {100 * budget.limit:g}: no shift keeps it; the least that can be had is "
            f"{100 * least / n:.2f} points ({least} of {n:,} validation pictures); raise it"
        )
    flips = int(line.steps.flips[-1])
    n = line.samples.n_old
    return (
        f"--max-nfr {100 * budget.limit:g}: no shift keeps it; the least NFR that can be had is "
        f"{100 * flips / n:.2f} % ({flips} of {n:,} validation pictures of old classes), at most "
        f"{100 * line.bounds[-1]:.2f} % with {100 * budget.confidence:.10g} % confidence; raise the budget, "
        f"hold out more pictures, or {FEWER_BETWEEN_OLD}"
    )
