"""Answers of several models to the same samples: who is right, which classes are old, and what flips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.confusion import Confusion, find_old_faults
from mptctl.evaluation.pairing.pairs import Pairing
from mptctl.evaluation.pairing.scores import Scores, score
from mptctl.evaluation.rates import Counts, negative_flips
from mptctl.evaluation.verdict import OldFault

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


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
    """The answers of models by role: `old`, `new`, and where it is given `baseline`.

    Attributes:
        pairing: the answers, matched by id, to N samples in G cells.
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
        """By role, the confidences, margins and best logits of each model that has logits."""
        by_role = {role: score(self.pairing, role, self.old_classes) for role in self.pairing.models}
        return {role: scores for role, scores in by_role.items() if scores is not None}

    @cached_property
    def own_scores(self) -> dict[str, Scores]:
        """`scores` without models of which a class map merged logits: their softmax is not the model's."""
        return {role: each for role, each in self.scores.items() if not self.pairing.models[role].merged}

    @cached_property
    def cells_of_old(self) -> BoolArray:
        """(G,) True for cells of old classes."""
        return self.is_old_class[self.pairing.cells.truth]

    @cached_property
    def confusion_of_old(self) -> Confusion:
        """How often the old model gave an answer to samples of an old class, by places in the vocabulary."""
        cells, kept = self.pairing.cells, self.cells_of_old
        truth, answer = cells.truth[kept], cells.old_answer[kept]
        return Confusion(truth, np.where(answer < 0, truth, answer), cells.n[kept])

    @cached_property
    def old_faults(self) -> list[OldFault]:
        """Reasons why the old model's right answers say nothing; a gate fails on each."""
        return find_old_faults(self.confusion_of_old, self.pairing.vocabulary)

    @cached_property
    def flipped_cells(self) -> tuple[IntArray, IntArray, IntArray]:
        """(F,) each: true class, new model's answer and number of samples of the cells of negative flips."""
        cells = self.pairing.cells
        flipped = (cells.answer >= 0) & self.cells_of_old
        return cells.truth[flipped], cells.answer[flipped], cells.n[flipped]

    @cached_property
    def flipped_pairs(self) -> FlippedPairs:
        """The negative flips by true class and new answer."""
        truth, answer, n = self.flipped_cells
        size = len(self.pairing.vocabulary)
        # One pair may be spread over several cells, which differ in the answers of other models.
        keys, place = np.unique(truth * size + answer, return_inverse=True)
        flips = sum_by_place(place, n, len(keys))
        order = np.argsort(-flips, kind="stable")
        return FlippedPairs(keys[order] // size, keys[order] % size, flips[order])

    @cached_property
    def _flip_tables(self) -> dict[str, Counts]:
        """By role, the flip table of the old model and the model in that role."""
        cells, kept = self.pairing.cells, self.cells_of_old
        n, old = cells.n[kept], cells.right["old"][kept]
        return {role: flip_counts(old, right[kept], n) for role, right in cells.right.items()}

    def counts(self, replacement: str = "new") -> Counts:
        """The flip table of the old model and the model in a role, over samples of old classes."""
        return self._flip_tables[replacement]

    def changed(self, replacement: str = "new") -> int:
        """Count the samples of old classes on which the model in a role and the old model differ."""
        cells = self.pairing.cells
        return int(cells.n[self.cells_of_old & ~cells.same[replacement]].sum())

    def wrong(self, role: str) -> tuple[int, int]:
        """Count the wrong answers of the model in a role: to samples of old classes, and to all samples."""
        cells = self.pairing.cells
        wrong = ~cells.right[role]
        return int(cells.n[wrong & self.cells_of_old].sum()), int(cells.n[wrong].sum())


def flip_counts(old: BoolArray, new: BoolArray, n: IntArray | None = None) -> Counts:
    """Count the flip table of an old model and its replacement.

    >>> flip_counts(np.array([True, True, False]), np.array([True, False, False]))
    Counts(both_right=1, negative_flips=1, positive_flips=0, both_wrong=1)

    Args:
        old: (N,) True where the old model is right.
        new: (N,) True where the new model is right.
        n: (N,) how many samples each entry stands for; None: one.
    """

    def count(mask: BoolArray) -> int:
        return int((mask if n is None else n[mask]).sum())

    return Counts(
        both_right=count(old & new),
        negative_flips=count(negative_flips(old, new)),
        positive_flips=count(negative_flips(new, old)),
        both_wrong=count(~old & ~new),
    )


def sum_by_place(place: IntArray, n: IntArray, places: int) -> IntArray:
    """Sum the numbers `n` by place: (places,) sums.

    >>> sum_by_place(np.array([0, 2, 0]), np.array([1, 2, 3]), 3).tolist()
    [4, 0, 2]
    """
    total = np.zeros(places, dtype=np.int64)
    np.add.at(total, place, n)
    return total
