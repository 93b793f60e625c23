"""Answers of several models to the same samples: who is right, which classes are old, and what flips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.confusion import Confusion, find_old_faults
from mptctl.evaluation.pairing.join import Codes, Pairing
from mptctl.evaluation.pairing.scores import Scores, score
from mptctl.evaluation.rates import Counts, negative_flips
from mptctl.evaluation.reading.table import add_counts
from mptctl.evaluation.verdict import OldFault

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
# Most pairs of classes that are counted in an array of all of them: 128 MB.
FEW_PAIRS = 2**24
# Rows of which classes are counted at one time.
BLOCK = 2**22


@dataclass(frozen=True)
class FlippedPairs:
    """Pairs of true class and new answer with flips, most flips first, then by name.

    Attributes:
        truth: (P,) the true class, as its place in the vocabulary.
        answer: (P,) the new model's answer, as its place in the vocabulary.
        flips: (P,) how many samples of this class flipped to this answer.
    """

    truth: IntArray
    answer: IntArray
    flips: IntArray


@dataclass(frozen=True)
class PairedAnswers:
    """The answers of both models by role: `old` and `new`.

    Attributes:
        pairing: the answers, matched by id, to N samples.
        old_classes: labels of the old classes.
    """

    pairing: Pairing
    old_classes: frozenset[str]

    @cached_property
    def is_old_class(self) -> BoolArray:
        """(V,) True for each of the V labels of the vocabulary that is an old class."""
        return self.pairing.among(self.old_classes)

    @cached_property
    def of_old(self) -> BoolArray:
        """(N,) True for samples of old classes."""
        return self.is_old_class[self.pairing.truth]

    @cached_property
    def right(self) -> dict[str, BoolArray]:
        """By role, (N,) True where the model's answer is right."""
        return {role: answers == self.pairing.truth for role, answers in self.pairing.answers.items()}

    @cached_property
    def to_keep(self) -> BoolArray:
        """(N,) True for samples of old classes that the old model got right: only these can flip."""
        return self.of_old & self.right["old"]

    @cached_property
    def flipped(self) -> BoolArray:
        """(N,) True for the negative flips: samples of `to_keep` that the new model gets wrong."""
        return negative_flips(self.to_keep, self.right["new"])

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """By role, the confidences and best logits of each model that has logits."""
        by_role = {role: score(self.pairing, role, self.old_classes) for role in self.pairing.models}
        return {role: scores for role, scores in by_role.items() if scores is not None}

    @cached_property
    def confusion_of_old(self) -> Confusion:
        """How often the old model gave an answer to samples of an old class, by places in the vocabulary."""
        truth, answer = self.pairing.truth[self.of_old], self.pairing.answers["old"][self.of_old]
        return Confusion(*count_pairs(truth, answer, len(self.pairing.vocabulary)))

    @cached_property
    def old_faults(self) -> list[OldFault]:
        """Reasons why the old model's right answers say nothing; a gate fails on each."""
        return find_old_faults(self.confusion_of_old, self.pairing.vocabulary)

    @cached_property
    def flipped_pairs(self) -> FlippedPairs:
        """The negative flips by true class and new answer."""
        pairing = self.pairing
        truth, answer, n = count_pairs(
            pairing.truth[self.flipped], pairing.answers["new"][self.flipped], len(pairing.vocabulary)
        )
        order = np.argsort(-n, kind="stable")
        return FlippedPairs(truth[order], answer[order], n[order])

    def count_by(self, groups: Codes, size: int) -> IntArray:
        """Count the flip table of OLD and NEW in each group of samples of old classes.

        Args:
            groups: (n,) the group of each sample of an old class.
            size: how many groups there are.

        Returns:
            (size, 4) how many samples both get right, flip, are gained, and both get wrong.
        """
        old_wrong = ~self.right["old"][self.of_old]
        new_wrong = ~self.right["new"][self.of_old]
        counts = np.zeros(4 * size, dtype=np.int64)
        for rows in _blocks(len(groups)):
            cells = 2 * old_wrong[rows] + new_wrong[rows]  # from 0, in the order of the columns
            counts = add_counts(counts, 4 * groups[rows].astype(np.int64) + cells)
        return counts.reshape(size, 4)

    @cached_property
    def by_class(self) -> IntArray:
        """(V, 4) the flip table of each class, as `count_by` counts it; zeros for new classes."""
        return self.count_by(self.pairing.truth[self.of_old], len(self.pairing.vocabulary))

    @cached_property
    def _counts(self) -> Counts:
        return flip_counts(self.right["old"][self.of_old], self.right["new"][self.of_old])

    def counts(self) -> Counts:
        """The flip table, over samples of old classes."""
        return self._counts

    def changed(self) -> int:
        """Count the samples of old classes on which the two models differ."""
        answers = self.pairing.answers
        return int((self.of_old & (answers["old"] != answers["new"])).sum())

    def wrong(self, role: str) -> tuple[int, int]:
        """Count the wrong answers of the model in a role: to samples of old classes, and to all samples."""
        wrong = ~self.right[role]
        return int((wrong & self.of_old).sum()), int(wrong.sum())


def count_pairs(truth: Codes, answer: Codes, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Count pairs of two classes.

    >>> count_pairs(np.array([1, 0, 1]), np.array([2, 0, 2]), 3)
    (array([0, 1]), array([0, 2]), array([1, 2]))

    Args:
        truth, answer: (n,) numbers below `size`.
        size: the number of classes.

    Returns:
        The P pairs that occur, sorted, in two arrays, and (P,) how often each occurs.
    """
    if size**2 <= FEW_PAIRS:  # without sorting
        counts = np.zeros(0, dtype=np.int64)
        for rows in _blocks(len(truth)):
            counts = add_counts(counts, truth[rows].astype(np.int64) * size + answer[rows])
        found = np.flatnonzero(counts)
        n = counts[found]
    else:
        found, n = np.unique(truth.astype(np.int64) * size + answer, return_counts=True)
    return found // size, found % size, n


def _blocks(n: int) -> list[slice]:
    """Divide n rows into slices of `BLOCK`: of a hundred million, eight bytes each would be 0.8 GB."""
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def flip_counts(old: BoolArray, new: BoolArray) -> Counts:
    """Count the flip table of an old model and its replacement.

    >>> flip_counts(np.array([True, True, False]), np.array([True, False, False]))
    Counts(both_right=1, negative_flips=1, positive_flips=0, both_wrong=1)

    Args:
        old: (N,) True where the old model is right.
        new: (N,) True where the new model is right.
    """
    return Counts(
        both_right=int((old & new).sum()),
        negative_flips=int(negative_flips(old, new).sum()),
        positive_flips=int(negative_flips(new, old).sum()),
        both_wrong=int((~old & ~new).sum()),
    )
