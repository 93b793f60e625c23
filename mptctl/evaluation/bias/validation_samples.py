"""Validation answers of an update, as the search for a bias needs them: wrong answers at any bias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.bias.sweep import BiasSteps, count_steps
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.reading.predictions import row_blocks

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class ValidationSamples:
    """Samples that neither model was trained on. Classes are columns of the new model's logits.

    Attributes:
        logits: (N, C) of the new model.
        truth: (N,) column of the true class; -1 where the new model does not know it.
        is_new: (C,) classes that the old model does not know.
        of_old: (N,) samples of old classes.
        old_right: (N,) right answers of the old model.
    """

    logits: FloatArray
    truth: IntArray
    is_new: BoolArray
    of_old: BoolArray
    old_right: BoolArray

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def to_keep(self) -> BoolArray:
        """(N,) samples of old classes that the old model got right: only these can flip."""
        return self.of_old & self.old_right

    @property
    def n_old(self) -> int:
        """Samples of old classes."""
        return int(self.of_old.sum())

    @property
    def rounding(self) -> float:
        """The distance within which single precision may put a bias beyond one that changes an answer."""
        finite = np.abs(self.logits[np.isfinite(self.logits)])
        # 64 units in the last place of the largest logit: those of the sum over features and of the folded
        # bias.
        return float(64 * np.finfo(np.float32).eps * max(1.0, finite.max(initial=0.0)))

    def rows(self, chosen: IntArray) -> ValidationSamples:
        """Some of the samples, by their (n,) rows."""
        return replace(
            self,
            logits=self.logits[chosen],
            truth=self.truth[chosen],
            of_old=self.of_old[chosen],
            old_right=self.old_right[chosen],
        )

    def halves(self) -> tuple[ValidationSamples, ValidationSamples]:
        """Every other sample of each class, and the rest."""
        order = np.argsort(self.truth, kind="stable")
        return self.rows(np.sort(order[::2])), self.rows(np.sort(order[1::2]))

    def wrong(self, biases: FloatArray) -> BoolArray:
        """(N,) wrong answers once (C,) `biases` are taken off the logits."""
        wrong = np.empty(len(self), dtype=np.bool_)
        for rows in row_blocks(self.logits):
            wrong[rows] = (self.logits[rows] - biases).argmax(axis=1) != self.truth[rows]
        return wrong

    def counts(self, biases: FloatArray) -> tuple[int, int]:
        """Errors and negative flips once (C,) `biases` are taken off the logits."""
        wrong = self.wrong(biases)
        return int(wrong.sum()), int((wrong & self.to_keep).sum())

    def steps(self, direction: FloatArray) -> BiasSteps:
        """Wrong answers as a multiple of a direction is taken off the logits, from 0 on.

        A logit is a line in that multiple. A sample of an old class is right from where the last new class
        falls below its own; one of a new class is right on the stretch where its line is above all others.

        Args:
            direction: (C,) 0 on old classes, at least 0 on new ones: what the multiple 1 takes off.
        """
        from_, to = np.zeros(len(self)), np.full(len(self), -np.inf)
        known = np.flatnonzero(self.truth >= 0)
        for rows in row_blocks(self.logits[known]):
            at = known[rows]
            from_[at], to[at] = _right_between(self.logits[at], self.truth[at], direction)
        before = self.wrong(np.zeros_like(direction))
        ever = (from_ < to) & (to > 0)
        # At a tie the first column answers without a bias, and maybe another one with any: a step right after
        # 0.
        least = np.nextafter(0, 1)
        begins = np.flatnonzero(ever & before)
        ends = np.flatnonzero(np.where(ever, np.isfinite(to), ~before))
        return count_steps(
            np.maximum(np.append(from_[begins], np.where(ever, to, 0.0)[ends]), least),
            np.append(begins, ends),
            np.append(np.full(begins.size, -1), np.ones(ends.size, dtype=np.int64)),
            before,
            self.of_old,
            self.to_keep,
        )


def validation_samples(answers: PairedAnswers) -> ValidationSamples:
    """The samples of a comparison whose new model has logits; an `old` that is missing is never right."""
    pairing = answers.pairing
    logits, classes = pairing.models["new"].scored
    never = np.zeros(len(pairing), dtype=np.bool_)
    return ValidationSamples(
        logits=np.asarray(logits)[pairing.rows["new"]].astype(np.float64),
        truth=pairing.columns("new")[pairing.truth],
        is_new=np.array([label not in answers.old_classes for label in classes], dtype=np.bool_),
        of_old=answers.of_old,
        old_right=answers.right.get("old", never),
    )


def _right_between(
    logits: FloatArray, truth: IntArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n,) each: the open stretch of multiples on which the true class has the largest logit, or none."""
    own = np.take_along_axis(logits, truth[:, None], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        lead, slope = own - logits, direction[truth][:, None] - direction
        crossing = lead / slope
    rival = np.arange(logits.shape[1]) != truth[:, None]
    rival &= ~np.isneginf(logits)
    # The true class loses ground where it is taken off faster, and gains it where it is taken off more
    # slowly.
    to = np.where(rival & (slope > 0), crossing, np.inf).min(axis=1)
    from_ = np.where(rival & (slope < 0), crossing, -np.inf).max(axis=1)
    # Of two equal logits whose biases are equal, too, the first column answers.
    first = np.arange(logits.shape[1]) < truth[:, None]
    beaten = (rival & (slope == 0) & ((lead < 0) | ((lead == 0) & first))).any(axis=1)
    beaten |= np.isneginf(own[:, 0])
    return np.where(beaten, np.inf, from_), np.where(beaten, -np.inf, to)
