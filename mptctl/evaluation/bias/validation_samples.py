"""Validation samples of an update, as the search for biases needs them: wrong answers at any biases."""

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
    """N samples that neither model was trained on. Classes are columns of the new model's logits.

    Attributes:
        logits: (N, C) of the new model.
        truth: (N,) column of the true class; -1 where the new model does not know it.
        is_new: (C,) True for classes that the old model does not know.
        of_old: (N,) True for samples of old classes.
        old_right: (N,) True where the old model is right.
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
        """(N,) True for samples of old classes that the old model got right: only these can flip."""
        return self.of_old & self.old_right

    @property
    def n_old(self) -> int:
        """The number of samples of old classes."""
        return int(self.of_old.sum())

    @property
    def rounding(self) -> float:
        """The rounding error of a logit in single precision: biases this close may give other answers."""
        finite = np.abs(self.logits[np.isfinite(self.logits)])
        # 64 units in the last place of the largest logit, for rounding in the last layer's sum over features
        # and in the sum of its bias and the one taken off.
        return float(64 * np.finfo(np.float32).eps * max(1.0, finite.max(initial=0.0)))

    def rows(self, chosen: IntArray) -> ValidationSamples:
        """Select n of the samples by their (n,) rows."""
        return replace(
            self,
            logits=self.logits[chosen],
            truth=self.truth[chosen],
            of_old=self.of_old[chosen],
            old_right=self.old_right[chosen],
        )

    def wrong(self, biases: FloatArray) -> BoolArray:
        """(N,) True where the answer is wrong once (C,) `biases` are taken off the logits."""
        wrong = np.empty(len(self), dtype=np.bool_)
        for rows in row_blocks(self.logits):
            wrong[rows] = (self.logits[rows] - biases).argmax(axis=1) != self.truth[rows]
        return wrong

    def counts(self, biases: FloatArray) -> tuple[int, int]:
        """Count errors and negative flips, in this order, once (C,) `biases` are taken off the logits."""
        wrong = self.wrong(biases)
        return int(wrong.sum()), int((wrong & self.to_keep).sum())

    def steps(self, direction: FloatArray) -> BiasSteps:
        """Count wrong answers at every multiple, from 0 on, of a direction that is taken off the logits.

        Each logit is linear in the multiple. So the multiples at which a sample is right are an interval, on
        which the line of its true class lies above all others.

        Args:
            direction: (C,) what is taken off at the multiple 1: 0 on old classes, at least 0 on new ones.
        """
        begin, end = np.zeros(len(self)), np.full(len(self), -np.inf)
        known = np.flatnonzero(self.truth >= 0)
        for rows in row_blocks(self.logits[known]):
            block = known[rows]
            begin[block], end[block] = _find_right_interval(self.logits[block], self.truth[block], direction)
        wrong_before = self.wrong(np.zeros_like(direction))
        is_ever_right = (begin < end) & (end > 0)
        # At a tie the first column wins without a bias, and another one may win with the smallest bias. Such
        # a change is put right after 0, since the step at 0 is the model as it is.
        least = np.nextafter(0, 1)
        becomes_right = np.flatnonzero(is_ever_right & wrong_before)
        becomes_wrong = np.flatnonzero(np.where(is_ever_right, np.isfinite(end), ~wrong_before))
        end = np.where(is_ever_right, end, 0.0)
        return count_steps(
            np.maximum(np.append(begin[becomes_right], end[becomes_wrong]), least),
            np.append(becomes_right, becomes_wrong),
            np.append(np.full(becomes_right.size, -1), np.ones(becomes_wrong.size, dtype=np.int64)),
            wrong_before,
            self.of_old,
            self.to_keep,
        )


def validation_samples(answers: PairedAnswers) -> ValidationSamples:
    """Take the validation samples from paired answers, in which `new` has logits.

    Where there is no `old`, no sample can flip: the old model counts as never right.
    """
    pairing = answers.pairing
    logits, classes = pairing.models["new"].scored
    return ValidationSamples(
        logits=np.asarray(logits)[pairing.rows["new"]].astype(np.float64),
        truth=pairing.columns("new")[pairing.truth],
        is_new=np.array([label not in answers.old_classes for label in classes], dtype=np.bool_),
        of_old=answers.of_old,
        old_right=answers.right.get("old", np.zeros(len(pairing), dtype=np.bool_)),
    )


def _find_right_interval(
    logits: FloatArray, truth: IntArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Find the open interval of multiples on which the true class has the largest logit.

    Args:
        logits: (n, C).
        truth: (n,) column of the true class.
        direction: (C,) what is taken off the logits at the multiple 1.

    Returns:
        (n,) begin and (n,) end; begin >= end where there is no such multiple.
    """
    own = np.take_along_axis(logits, truth[:, None], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        lead, slope = own - logits, direction[truth][:, None] - direction
        crossing = lead / slope
    rival = np.arange(logits.shape[1]) != truth[:, None]
    rival &= ~np.isneginf(logits)
    # The true class falls behind a rival from which less is taken off, and overtakes one that loses more.
    end = np.where(rival & (slope > 0), crossing, np.inf).min(axis=1)
    begin = np.where(rival & (slope < 0), crossing, -np.inf).max(axis=1)
    # A rival with the same bias wins at every multiple if its logit is larger, or equal in an earlier column.
    is_earlier = np.arange(logits.shape[1]) < truth[:, None]
    beaten = (rival & (slope == 0) & ((lead < 0) | ((lead == 0) & is_earlier))).any(axis=1)
    beaten |= np.isneginf(own[:, 0])
    return np.where(beaten, np.inf, begin), np.where(beaten, -np.inf, end)
