"""The confusion of the old model's answers: whether they beat independence, and names exchanged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import some
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.verdict import OldFault
from mptctl.files.explained import shown

IntArray = NDArray[np.int64]

LIKELY_CAUSE = "the likely cause is the preprocessing (size, normalisation) or the order of the class names"

# Largest probability with which names that are right are called exchanged, in any of the classes together.
FALSE_ALARM = 1e-6
# Chosen: most classes of exchanged names that a message lists.
MOST_NAMES = 10
# Chosen: a slice of fewer samples has few right answers by chance, so that it must have hardly any to fail.
FEW_SAMPLES = 30


@dataclass(frozen=True)
class Confusion:
    """How often a model gave an answer to samples of a class: the P pairs that occur, so no C x C matrix.

    Attributes:
        truth: (P,) the true class, a number.
        answer: (P,) the answer, numbered as classes are.
        n: (P,) how many samples.
    """

    truth: IntArray
    answer: IntArray
    n: IntArray

    @cached_property
    def total(self) -> int:
        """The number of samples."""
        return int(self.n.sum())

    @cached_property
    def right(self) -> int:
        """The number of right answers."""
        return int(self.n[self.truth == self.answer].sum())

    @cached_property
    def by_class(self) -> IntArray:
        """(V,) samples of each class, up to the largest number that is a class or an answer."""
        return self._sums(self.truth, self.n)

    @cached_property
    def right_by_class(self) -> IntArray:
        """(V,) right answers to samples of each class."""
        return self._sums(self.truth, np.where(self.truth == self.answer, self.n, 0))

    @cached_property
    def right_if_independent(self) -> float:
        """Expected right answers if answers were independent of classes, with the frequencies of both kept.

        This is the sum over classes of (samples of the class) * (answers of the class) / (all samples).
        """
        # Exact: sums of products of integers, at most total**2. In Python's integers, as they may be large.
        pairs = zip(self.by_class.tolist(), self._sums(self.answer, self.n).tolist(), strict=True)
        expected: float = sum(samples * answers for samples, answers in pairs) / self.total
        return expected

    @cached_property
    def kappa(self) -> float | None:
        """Cohen's kappa; None where samples are of one class, since every kappa is then 0 or not defined.

        (right - r) / (total - r), where r is `right_if_independent`. J. Cohen, A coefficient of agreement for
        nominal scales, Educational and Psychological Measurement 20 (1960), 37-46.
        """
        if np.count_nonzero(self.by_class) < 2:
            return None
        expected = self.right_if_independent
        return (self.right - expected) / (self.total - expected)

    def _sums(self, classes: IntArray, n: IntArray) -> IntArray:
        """(V,) sums of (P,) numbers of samples by (P,) classes."""
        size = 1 + int(max(self.truth.max(initial=0), self.answer.max(initial=0)))
        sums = np.zeros(size, dtype=np.int64)
        np.add.at(sums, classes, n)
        return sums


@dataclass(frozen=True)
class ExchangedNames:
    """Classes whose names are exchanged: samples of each class are mostly answered with the next one's name.

    Attributes:
        classes: numbers of the classes, each followed by the one whose name it bears; after the last comes
            the first.
        samples: of these classes.
        errors: on these samples, as the names are.
        errors_renamed: on these samples if each class had its right name.
    """

    classes: tuple[int, ...]
    samples: int
    errors: int
    errors_renamed: int


def find_exchanged_names(confusion: Confusion) -> list[ExchangedNames]:
    """Find groups of classes whose names are exchanged, by their confusion.

    A group is a cycle of L >= 2 classes c1 -> c2 -> ... -> c1. Renaming all of its answers by one step must
    at least halve the errors of each of its classes. For that, more than half of a class's wrong answers, and
    at least half of its answers, must be the next class; so each class has at most one next class, and the
    search takes time proportional to the pairs that occur.

    A group is only reported if chance is out of the question. Let names be right, which is to say that no
    class of the cycle is answered with the next one's name more often than with its own, in the long run: at
    worst, the model tosses a coin between the two. Of the m samples of the cycle that are answered with their
    own or the next name, x have the next. Then P(X >= x) is at most that of a binomial of m tosses of a fair
    coin, and this is at most exp(-m * (log 2 - H(x / m))) for x >= m / 2, with H the entropy in nats
    (Hoeffding, Journal of the American Statistical Association 58 (1963), 13-30). Of C classes with samples,
    C! / ((C - L)! L) cycles of length L could be found. Each must have a probability of at most `FALSE_ALARM`
    / 2^(L - 1) / (that number). Summed over all cycles of all lengths (Bonferroni) this is at most
    `FALSE_ALARM`: one false alarm in a million test sets, whatever the classes' sizes and however the counts
    of several cycles depend on one another. It takes a cycle of two classes among two 21 samples that are
    answered with the other name, among 1,000 classes 40, and among 21,841 classes 49.

    Returns:
        The groups, by their first class.
    """
    right = confusion.right_by_class
    next_class, count_of_next = _most_frequent_wrong_answers(confusion)
    is_halved = (count_of_next > 0) & (2 * count_of_next >= confusion.by_class + right)
    num_classes = int(np.count_nonzero(confusion.by_class))
    found = []
    for cycle in _cycles(np.where(is_halved, next_class, -1)):
        members = np.array(cycle)
        length = len(cycle)
        samples = int(confusion.by_class[members].sum())
        right_now = int(right[members].sum())
        right_renamed = int(count_of_next[members].sum())
        log_cycles = math.lgamma(num_classes + 1) - math.lgamma(num_classes - length + 1) - math.log(length)
        log_allowed = math.log(FALSE_ALARM) - (length - 1) * math.log(2) - log_cycles
        if _log_tail(right_renamed, right_renamed + right_now) <= log_allowed:
            found.append(ExchangedNames(tuple(cycle), samples, samples - right_now, samples - right_renamed))
    return found


def _most_frequent_wrong_answers(confusion: Confusion) -> tuple[IntArray, IntArray]:
    """(V,) the most frequent wrong answer to each class, -1 where there is none, and (V,) how often it is."""
    size = len(confusion.by_class)
    wrong = confusion.truth != confusion.answer
    pairs, pair_of = np.unique(confusion.truth[wrong] * size + confusion.answer[wrong], return_inverse=True)
    n = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(n, pair_of, confusion.n[wrong])
    order = np.argsort(n, kind="stable")  # the last entry of a class is its most frequent one
    answers, counts = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    answers[pairs[order] // size] = pairs[order] % size
    counts[pairs[order] // size] = n[order]
    return answers, counts


def _cycles(following: IntArray) -> list[list[int]]:
    """List the cycles of at least two indices, each from its smallest one, when each index has one follower.

    Args:
        following: (V,) the index that follows each; -1 for none, and never the index itself.
    """
    seen, found = np.zeros(len(following), dtype=np.bool_), []
    for start in np.flatnonzero(following >= 0).tolist():
        path: list[int] = []
        index = start
        while index >= 0 and not seen[index]:
            seen[index] = True
            path.append(index)
            index = int(following[index])
        if index in path:
            cycle = path[path.index(index) :]
            smallest = cycle.index(min(cycle))
            found.append(cycle[smallest:] + cycle[:smallest])
    return sorted(found)


def _log_tail(count: int, tosses: int) -> float:
    """An upper bound of the logarithm of P(X >= count) for a binomial X of tosses of a fair coin."""
    share = count / tosses
    if share <= 0.5:
        return 0.0
    entropy = -share * math.log(share)
    if count < tosses:
        entropy -= (1 - share) * math.log(1 - share)
    return -tosses * (math.log(2) - entropy)


def exchanged_names_sentence(found: Sequence[ExchangedNames], names: Sequence[str], model: str) -> str:
    """The sentence on exchanged names: the permutation, and the errors with and without it.

    Args:
        found: at least one group.
        names: the name of each class, by its number.
        model: what the model is called in the sentence.
    """
    called = [
        f"{shown(names[one])} is called {shown(names[other])}"
        for group in found
        for one, other in zip(group.classes, [*group.classes[1:], group.classes[0]], strict=True)
    ]
    samples = sum(group.samples for group in found)
    errors = sum(group.errors for group in found)
    renamed = sum(group.errors_renamed for group in found)
    return (
        f"class names of {model} are exchanged: {some(called, MOST_NAMES)}; of the {samples:,} samples of "
        f"these classes {errors:,} are wrong, and {renamed:,} with the right names; "
        "correct its list of class names"
    )


def find_old_faults(confusion: Confusion, names: Sequence[str]) -> list[OldFault]:
    """Find what makes the old model's right answers unfit to be held against a replacement.

    Args:
        confusion: of the old model, over samples of old classes.
        names: the name of each class, by its number.

    Returns:
        A fault where its answers are no better than independence (a kappa of 0 or less) but sometimes right,
        and a fault where names of classes are exchanged.
    """
    faults = []
    kappa = confusion.kappa
    if confusion.right and kappa is not None and kappa <= 0:
        faults.append(
            OldFault(name="old-by-chance", message=f"{by_chance_sentence(confusion)}; {LIKELY_CAUSE}")
        )
    if exchanged := find_exchanged_names(confusion):
        message = exchanged_names_sentence(exchanged, names, "the old model")
        faults.append(OldFault(name="old-names-exchanged", message=message))
    return faults


def by_chance_sentence(confusion: Confusion, of: str = "of old classes") -> str:
    """The sentence on answers of the old model that are no better than independence of the classes.

    Args:
        confusion: of the old model, with a kappa.
        of: which samples.
    """
    return (
        f"the old model is right on {confusion.right:,} of {confusion.total:,} samples {of}, no more than "
        f"the {confusion.right_if_independent:.1f} that answers independent of the class would be "
        f"(Cohen's kappa {confusion.kappa:.2f}), so that hardly anything can be lost"
    )


def may_be_by_chance(right: int, total: int) -> bool:
    """Tell whether a slice has so few right answers of the old model that a kappa of 0 or less is a fault.

    In a slice that is mostly of one class, one wrong answer may bring kappa to 0 although nearly all answers
    are right; and in a slice of a few samples, bad luck may. So at most half must be right, and of fewer than
    `FEW_SAMPLES` samples at most a tenth.
    """
    return right <= (total / 2 if total >= FEW_SAMPLES else total / 10)


def never_right_warnings(confusion: Confusion, names: Sequence[str]) -> list[str]:
    """Return a warning on classes of which the old model gets no sample right; none where it is never right.

    Args:
        confusion: of the old model, over samples of old classes.
        names: the name of each class, by its number.
    """
    never_right = np.flatnonzero((confusion.by_class > 0) & (confusion.right_by_class == 0))
    classes = [names[index] for index in never_right.tolist()]
    if not confusion.right or not classes:
        return []
    many = "1 class" if len(classes) == 1 else f"{len(classes):,} classes"
    return [f"the old model is never right on {many} ({first(classes)}), so that nothing can be lost there"]
