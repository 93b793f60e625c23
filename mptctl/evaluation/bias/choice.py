"""The bias to take off the new classes' logits so that a budget of flips is met, with a bound that holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from mptctl.errors import DataError, GateFailed, UsageError
from mptctl.evaluation.bias.class_biases import fit_class_biases
from mptctl.evaluation.bias.sweep import BiasSteps
from mptctl.evaluation.bias.validation_samples import FloatArray, IntArray, ValidationSamples
from mptctl.evaluation.decision import ROUNDING
from mptctl.evaluation.statistics import exact_interval, most_within, upper_bounds

# Chosen: the part of validation parts that meet a budget below which it is near the least that can be
# reached.
OFTEN = 0.8
# Remedy for flips between old classes, which no shift heals; k acts between old and new classes.
FEWER_BETWEEN_OLD = "train an update by MPT that begins with the old model (--init old)"

# Costs of a choice: errors or flips, of one bias or of many.
Price = TypeVar("Price", int, IntArray)

BiasKind = Literal["none", "bias", "per-class"]


@dataclass(frozen=True)
class Budget:
    """The limit that a choice, of a bias or of a training, has to keep to; exactly one of the two is set.

    Attributes:
        max_nfr: limit on NFR, a fraction, which its upper bound must meet; the least error is looked for.
        max_er_increase: how much the error on all classes may rise, a fraction; the least NFR is looked for.
        confidence: level of the two-sided interval whose upper end must meet the limit.
        epochs: of the training, one of which the same samples chose; each has an equal part of the error that
            the confidence leaves (Bonferroni's correction). 1 where they chose none.
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
        """Computes the level of one bound, so that all bounds hold together at `confidence` (Bonferroni).

        Args:
            series: of biases, or of k, of which the best is taken.

        >>> round(Budget(max_nfr=0.02, epochs=5).level(series=2), 6)
        0.995
        """
        return 1 - (1 - self.confidence) / (series * self.epochs)

    def in_order(self, errors: Price, flips: Price) -> tuple[Price, Price]:
        """The two costs, first the one that is to be least, then the one that decides between equal ones."""
        return (errors, flips) if self.max_nfr is not None else (flips, errors)

    def most_flips(self, samples: int, series: int) -> int:
        """Computes the most flips with which the limit on NFR, which is set, is shown to be kept.

        Args:
            samples: validation samples of old classes, at least one.
            series: as for `level`.

        Raises:
            UsageError: not even none would show it.

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
    """All multiples of one direction, and what each does to samples that did not choose the direction.

    Attributes:
        kind: of the direction.
        direction: (C,) biases that the multiple 1 takes off.
        samples: that the multiples are held against.
        steps: every multiple at which an answer changes.
        bounds: (S,) upper bound of NFR at each step.
        multiples: (S,) one multiple inside each step, as far from its ends as can be.
        wide: (S,) steps so wide that rounding does not lead out of them.
    """

    kind: BiasKind
    direction: FloatArray
    samples: ValidationSamples
    steps: BiasSteps
    bounds: FloatArray
    multiples: FloatArray
    wide: NDArray[np.bool_]

    @property
    def wrong(self) -> IntArray:
        """(S,) wrong answers to all samples."""
        return self.steps.wrong_old + self.steps.wrong_new

    @property
    def more_wrong(self) -> IntArray:
        """(S,) how many more answers are wrong than without a bias."""
        more: IntArray = self.wrong - self.wrong[0]
        return more

    def allowed(self, budget: Budget) -> IntArray:
        """The steps that keep to a budget; none where it cannot be met.

        NFR never rises as a bias grows. So testing from the largest bias down until the first that fails ends
        with the smallest that holds: fixed-sequence testing, which needs no correction for their number.
        """
        fits = self.wide.copy()
        if budget.max_nfr is not None:
            fits &= self.bounds <= budget.max_nfr + ROUNDING
        if budget.max_er_increase is not None:
            fits &= self.more_wrong <= (budget.max_er_increase + ROUNDING) * len(self.samples)
        return np.flatnonzero(fits)

    def best(self, budget: Budget) -> int | None:
        """The allowed step with the least error, or else flips, and of equal ones the smallest bias."""
        steps = self.allowed(budget)
        if not steps.size:
            return None
        first, second = budget.in_order(self.wrong[steps], self.steps.flips[steps])
        return int(steps[np.lexsort((steps, second, first))[0]])


@dataclass(frozen=True)
class BiasChoice:
    """The biases that were chosen.

    Attributes:
        line: on which they lie.
        step: of that line.
        level: of the interval whose upper end is the bound; all lines together keep the budget's confidence
            with it.
        lines: all that were looked at, the chosen one among them.
    """

    line: BiasLine
    step: int
    level: float
    lines: tuple[BiasLine, ...]

    @property
    def kind(self) -> BiasKind:
        """Of the direction; ``none`` where nothing is taken off."""
        return self.line.kind if self.biases.any() else "none"

    @property
    def biases(self) -> FloatArray:
        """(C,) what is taken off each logit."""
        biases: FloatArray = self.line.multiples[self.step] * self.line.direction
        return biases


def choose_bias(samples: ValidationSamples, budget: Budget) -> BiasChoice:
    """Finds the biases that meet a budget at the least price.

    Two directions are tried: one bias for all new classes, on all samples; and a bias of each class, fitted
    on one half of the samples, whose multiple alone is chosen on the other. Since the better one is taken,
    each line has half of the error that the budget leaves it, wherever there are two (Bonferroni's
    correction).

    Args:
        samples: the validation part.
        budget: what is to be kept.

    Raises:
        DataError: no sample is of an old class.
        GateFailed: no bias meets the budget; the message names the least NFR, or increase, that can be had.
    """
    if not samples.n_old:
        raise DataError("the validation part has no picture of an old class: nothing there can flip")
    fitted, rest = samples.halves()
    splits = bool(samples.is_new.sum() > 1 and fitted.n_old and rest.n_old)
    level = budget.level(series=2 if splits else 1)
    lines = [bias_line("bias", samples.is_new.astype(np.float64), samples, level)]
    if splits:
        within = None
        if budget.max_nfr is not None:  # the largest NFR that would pass on the other half
            within = max(0, most_within(budget.max_nfr + ROUNDING, rest.n_old, level)) / rest.n_old
        direction = fit_class_biases(fitted, within, budget.max_er_increase)
        if direction is not None:
            lines.append(bias_line("per-class", direction, rest, level))
    choices = [
        BiasChoice(line, step, level, tuple(lines))
        for line in lines
        if (step := line.best(budget)) is not None
    ]
    if not choices:
        raise GateFailed(_not_met(lines, budget))
    # Held against each other on the samples that the classes' own biases were not fitted on; the simpler one
    # first.
    return min(choices, key=lambda choice: budget.in_order(*rest.counts(choice.biases)))


def near_the_least(choice: BiasChoice, budget: Budget) -> str | None:
    """A warning where a budget that was met is near the least NFR that a bias can reach; else None."""
    if budget.max_nfr is None:
        return None
    line = min(choice.lines, key=lambda line: float(line.bounds[-1]))
    flips, n = int(line.steps.flips[-1]), line.samples.n_old
    return warn_near_the_least(budget.max_nfr, flips, n, choice.level, "a shift", FEWER_BETWEEN_OLD)


def warn_near_the_least(
    max_nfr: float, flips: int, n: int, level: float, means: str, remedy: str
) -> str | None:
    """A sentence where a limit on NFR is near the least that can be reached; None where it is not.

    It is near where of validation parts of this size, drawn at the least NFR that was seen, fewer than
    `OFTEN` would meet it. Then most calls write nothing, and those that write owe it to a lucky draw.

    Args:
        max_nfr: the limit, a fraction.
        flips: the fewest that were seen.
        n: validation samples of old classes that they were seen on.
        level: of the interval whose upper end must meet the limit.
        means: by which they were reached.
        remedy: what lowers the least NFR.
    """
    meets = float(bdtr(most_within(max_nfr + ROUNDING, n, level), n, flips / n))
    if meets >= OFTEN:
        return None
    return (
        f"--max-nfr {100 * max_nfr:g}: is near the least NFR that {means} can reach here, "
        f"{100 * flips / n:.2f} % ({flips} of {n:,}): about {100 * meets:.0f} % of validation parts of this "
        "size would meet it, and a model chosen so near the limit exceeds its budget more often than the "
        f"interval level says; hold out more pictures, or {remedy}"
    )


def bias_line(kind: BiasKind, direction: FloatArray, samples: ValidationSamples, level: float) -> BiasLine:
    """Counts what every multiple of a (C,) direction does to some samples, with bounds of NFR at a level."""
    steps = samples.steps(direction)
    taken = direction[direction > 0]
    margin = samples.rounding / taken.min() if taken.size else samples.rounding
    ends = np.append(steps.biases[1:], steps.biases[-1] + 4 * margin)
    multiples = (steps.biases + ends) / 2
    multiples[0] = 0.0  # the model as it is
    wide = ends - steps.biases > 2 * margin
    wide[0] = True
    bounds = upper_bounds(steps.flips, samples.n_old, level)
    return BiasLine(kind, direction, samples, steps, bounds, multiples, wide)


def _not_met(lines: Sequence[BiasLine], budget: Budget) -> str:
    """The message of a budget that cannot be met, with the least that can be had."""
    if budget.max_nfr is None:
        line = min(lines, key=lambda line: int(line.more_wrong.min()) / len(line.samples))
        least, n = int(line.more_wrong.min()), len(line.samples)
        return (
            f"--max-er-increase {100 * budget.limit:g}: no shift keeps it; the least that can be had is "
            f"{100 * least / n:.2f} points ({least} of {n:,} validation pictures); raise it"
        )
    line = min(lines, key=lambda line: float(line.bounds[-1]))
    flips, n = int(line.steps.flips[-1]), line.samples.n_old
    return (
        f"--max-nfr {100 * budget.limit:g}: no shift keeps it; the least NFR that can be had is "
        f"{100 * flips / n:.2f} % ({flips} of {n:,} validation pictures of old classes), at most "
        f"{100 * line.bounds[-1]:.2f} % with {100 * budget.confidence:g} % confidence; raise the budget, "
        f"hold out more pictures, or {FEWER_BETWEEN_OLD}"
    )
