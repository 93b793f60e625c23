"""The bias sweep: NFR and error at every bias taken off the new classes' logits after training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mptctl.evaluation.paired_bootstrap import BoolArray, FloatArray, IntArray, WrongByBias, sort_gaps
from mptctl.evaluation.pairing.join import Codes
from mptctl.evaluation.pairing.scores import Scores


class BiasSteps(NamedTuple):
    """Counts of wrong answers in S steps: ranges of the bias within which no answer becomes right or wrong.

    Attributes:
        biases: (S,) where each step begins, increasing from 0; it ends where the next one begins.
        flips: (S,) wrong answers to samples of old classes that the old model got right.
        wrong_old: (S,) wrong answers to samples of old classes.
        wrong_new: (S,) wrong answers to samples of new classes.
    """

    biases: FloatArray
    flips: IntArray
    wrong_old: IntArray
    wrong_new: IntArray


def count_steps(answers: WrongByBias, moving: BoolArray, of_old: BoolArray, to_keep: BoolArray) -> BiasSteps:
    """Count wrong answers to N samples as a bias grows from 0.

    >>> answers = WrongByBias(np.array([1.5, -1.0]), np.array([False, True]), np.array([True, True]))
    >>> of_old, to_keep = np.array([True, True]), np.array([True, False])
    >>> steps = count_steps(answers, answers.gap > 0, of_old, to_keep)
    >>> steps.biases.tolist(), steps.flips.tolist(), steps.wrong_old.tolist()
    ([0.0, 1.5], [0, 1], [1, 2])

    Args:
        answers: of the update.
        moving: (N,) True for samples with a positive, finite gap at which a step begins.
        of_old: (N,) True for samples of old classes.
        to_keep: (N,) True for samples of old classes that the old model got right.
    """
    order, last = sort_gaps(answers.gap, moving)
    change = answers.as_old[order].astype(np.int64) - answers.as_new[order]
    wrong = answers.at(0.0)

    def count_wrong(among: BoolArray) -> IntArray:
        """Count the wrong answers among some samples, without a bias and from each gap on."""
        start = int((wrong & among).sum())
        return np.append(start, start + np.cumsum(change * among[order])[last])

    return BiasSteps(
        np.append(0.0, answers.gap[order][last]),
        count_wrong(to_keep),
        count_wrong(of_old),
        count_wrong(~of_old),
    )


def wrong_by_bias(scores: Scores, truth: Codes) -> WrongByBias:
    """Find the wrong answers of a model at every bias.

    Args:
        scores: of the model, to N samples.
        truth: (N,) true labels, as places in the vocabulary.
    """
    gap = find_gaps(scores.new_logit, scores.old_logit, scores.old_first)
    return WrongByBias(gap, scores.new_answer != truth, scores.old_answer != truth)


def find_gaps(new_logit: FloatArray, old_logit: FloatArray, old_first: BoolArray) -> FloatArray:
    """(N,) the bias from which on each sample is answered with an old class.

    That is the largest new logit minus the largest old one. At a tie without a bias the class of the first
    column is the answer: where that is the new one, the smallest positive bias makes it the old one.

    Args:
        new_logit, old_logit: (N,) largest logits among new and among old classes; minus infinity for none.
        old_first: (N,) True where the old class wins a tie.
    """
    with np.errstate(over="ignore"):  # a difference that overflows is infinite
        gap = new_logit - old_logit
    return np.where((gap == 0) & ~old_first, np.nextafter(0, 1), gap)
