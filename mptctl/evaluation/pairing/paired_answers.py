"""Answers of old and new model to the same samples: who was right, which samples count, and what flipped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.pairs import Pairing
from mptctl.evaluation.pairing.scores import Scores, score
from mptctl.evaluation.rates import Counts, negative_flips

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
# Models whose logits a comparison reads; of the noise floor it needs answers alone.
SCORED = ("old", "new", "baseline")


@dataclass(frozen=True)
class FlippedPairs:
    """Pairs of class and answer that flipped, most flips first, then by name.

    Attributes:
        truth, answer: (P,) the class, and the new model's answer.
        flips: (P,) how many.
    """

    truth: IntArray
    answer: IntArray
    flips: IntArray


@dataclass(frozen=True)
class PairedAnswers:
    """Models by role: `old`, `new`, and where they are given `noise_floor` and `baseline`.

    Attributes:
        pairing: their answers, matched by id.
        old_classes: labels of the old classes.
    """

    pairing: Pairing
    old_classes: frozenset[str]

    @cached_property
    def is_old_class(self) -> BoolArray:
        """(labels of the vocabulary,) which are old classes."""
        return self.pairing.among(self.old_classes)

    @cached_property
    def of_old(self) -> BoolArray:
        """(N,) which samples are of an old class."""
        return self.is_old_class[self.pairing.truth]

    @cached_property
    def right(self) -> dict[str, BoolArray]:
        """(N,) which answers are right, by role."""
        return {role: answers == self.pairing.truth for role, answers in self.pairing.answers.items()}

    @cached_property
    def to_keep(self) -> BoolArray:
        """(N,) samples of old classes that the old model got right."""
        return self.of_old & self.right["old"]

    @cached_property
    def flipped(self) -> BoolArray:
        """(N,) of these, the ones that the new model gets wrong: the negative flips."""
        return negative_flips(self.to_keep, self.right["new"])

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """Confidences, margins and best logits of the models that have logits, by role."""
        models = self.pairing.models
        found = {role: score(self.pairing, role, self.old_classes) for role in SCORED if role in models}
        return {role: scores for role, scores in found.items() if scores is not None}

    @cached_property
    def cells_of_old(self) -> BoolArray:
        """(G,) which cells of the pairing are of an old class."""
        return self.is_old_class[self.pairing.cells.truth]

    @cached_property
    def flipped_cells(self) -> tuple[IntArray, IntArray, IntArray]:
        """Cells of flips: (F,) true classes, the new model's answers, and how many."""
        cells = self.pairing.cells
        flipped = (cells.answer >= 0) & self.cells_of_old
        return cells.truth[flipped], cells.answer[flipped], cells.n[flipped]

    @cached_property
    def flipped_pairs(self) -> FlippedPairs:
        """The flips by class and answer."""
        truth, answer, n = self.flipped_cells
        size = len(self.pairing.vocabulary)
        # Other models tell samples apart that these two answer alike: one pair may stand in several cells.
        keys, cell = np.unique(truth * size + answer, return_inverse=True)
        flips = sum_by_place(cell, n, len(keys))
        order = np.argsort(-flips, kind="stable")
        return FlippedPairs(keys[order] // size, keys[order] % size, flips[order])

    @cached_property
    def _flip_tables(self) -> dict[str, Counts]:
        cells, kept = self.pairing.cells, self.cells_of_old
        n, old = cells.n[kept], cells.right["old"][kept]
        return {role: flip_counts(old, right[kept], n) for role, right in cells.right.items()}

    def counts(self, replacement: str = "new") -> Counts:
        """The flip table of the old model and the one in a role, over samples of old classes."""
        return self._flip_tables[replacement]

    def changed(self, replacement: str = "new") -> int:
        """The number of samples of old classes that a model answers in another way than the old one."""
        cells = self.pairing.cells
        return int(cells.n[self.cells_of_old & ~cells.same[replacement]].sum())

    def wrong(self, role: str) -> tuple[int, int]:
        """Wrong answers of the model in a role: to samples of old classes, and to all."""
        cells = self.pairing.cells
        wrong = ~cells.right[role]
        return int(cells.n[wrong & self.cells_of_old].sum()), int(cells.n[wrong].sum())


def flip_counts(old: BoolArray, new: BoolArray, n: IntArray | None = None) -> Counts:
    """The flip table of right answers of an old model and of its replacement.

    >>> flip_counts(np.array([True, True, False]), np.array([True, False, False]))
    Counts(both_right=1, negative_flips=1, positive_flips=0, both_wrong=1)

    Args:
        old, new: (N,) which answers are right.
        n: (N,) how many samples each of them stands for; None: one.
    """

    def samples(cells: BoolArray) -> int:
        return int((cells if n is None else n[cells]).sum())

    return Counts(
        both_right=samples(old & new),
        negative_flips=samples(negative_flips(old, new)),
        positive_flips=samples(negative_flips(new, old)),
        both_wrong=samples(~old & ~new),
    )


def sum_by_place(place: IntArray, n: IntArray, places: int) -> IntArray:
    """(places,) the sum of `n` at each place.

    >>> sum_by_place(np.array([0, 2, 0]), np.array([1, 2, 3]), 3).tolist()
    [4, 0, 2]
    """
    total = np.zeros(places, dtype=np.int64)
    np.add.at(total, place, n)
    return total
