"""Validation samples of an update, as the search for a bias needs them: wrong answers at any bias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mptctl.evaluation.bias.sweep import BiasSteps, count_steps, find_gaps
from mptctl.evaluation.paired_bootstrap import BoolArray, FloatArray, IntArray, WrongByBias
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.reading.logits import best_among, row_blocks


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

    @cached_property
    def answers(self) -> WrongByBias:
        """The new model's wrong answers at every bias taken off the logits of new classes."""
        old_columns, new_columns = np.flatnonzero(~self.is_new), np.flatnonzero(self.is_new)
        old_logit, new_logit = np.empty(len(self)), np.empty(len(self))
        old_column, new_column = np.empty_like(self.truth), np.empty_like(self.truth)
        for rows in row_blocks(self.logits):
            old_logit[rows], old_column[rows] = best_among(self.logits[rows], old_columns)
            new_logit[rows], new_column[rows] = best_among(self.logits[rows], new_columns)
        gap = find_gaps(new_logit, old_logit, old_column < new_column)
        return WrongByBias(gap, new_column != self.truth, old_column != self.truth)

    def counts(self, bias: float) -> tuple[int, int]:
        """Count errors and negative flips, in this order, once a bias is taken off new classes' logits."""
        wrong = self.answers.at(bias)
        return int(wrong.sum()), int((wrong & self.to_keep).sum())

    def steps(self) -> BiasSteps:
        """Count wrong answers at every bias from 0 on, in steps at which an answer becomes right or wrong."""
        gap = self.answers.gap
        moving = (gap > 0) & np.isfinite(gap) & (self.answers.as_new != self.answers.as_old)
        return count_steps(self.answers, moving, self.of_old, self.to_keep)


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
