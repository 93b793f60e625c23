"""Who flipped: the four counts, and the negative flips by class, by answer and by old confidence."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.flip_report import (
    ClassRow,
    ConfidenceRow,
    Counts,
    Destinations,
    FlippedSample,
    PairRow,
    Rate,
    Rates,
    WrongAnswerRow,
)
from mptctl.evaluation.statistics import expected_flips, rate, relative_nfr, relative_nfr_interval

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

# Ranges of the old model's confidence: guesses, leanings, and ever surer answers.
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)


def count_flips(old_right: BoolArray, new_right: BoolArray) -> Counts:
    """The four cells of the flip table; both arguments (N,), over the samples that count."""
    return Counts(
        both_right=int((old_right & new_right).sum()),
        negative_flips=int((old_right & ~new_right).sum()),
        positive_flips=int((~old_right & new_right).sum()),
        both_wrong=int((~old_right & ~new_right).sum()),
    )


def flip_rates(counts: Counts, changed: int) -> Rates:
    """Rates of a flip table with their intervals.

    Args:
        counts: the flip table.
        changed: samples whose answer is another one.
    """
    return Rates(
        nfr=rate(counts.negative_flips, counts.total),
        pfr=rate(counts.positive_flips, counts.total),
        rel_nfr=Rate(
            value=relative_nfr(counts),
            count=counts.negative_flips,
            of=expected_flips(counts),
            ci95=relative_nfr_interval(counts),
        ),
        nfi=rate(counts.negative_flips, counts.new_wrong),
        lost=rate(counts.negative_flips, counts.old_right),
        churn=rate(changed, counts.total),
    )


def destinations(answer: IntArray, is_old: BoolArray) -> Destinations:
    """Where flips went. answer: (F,) new answers of flipped samples; is_old: (V,) which labels are old."""
    to_old = int(is_old[answer].sum())
    return Destinations(
        to_old_class=rate(to_old, answer.size), to_new_class=rate(answer.size - to_old, answer.size)
    )


def flips_by_confidence(confidence: NDArray[np.float64], flipped: BoolArray) -> list[ConfidenceRow]:
    """Flips by the old model's confidence; both (R,), over the samples that it got right."""
    edges = np.array(CONFIDENCE_EDGES)
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, edges.size - 2)
    n = np.bincount(place, minlength=edges.size - 1)
    flips = np.bincount(place[flipped], minlength=edges.size - 1)
    return [
        ConfidenceRow(low=low, high=high, flips=rate(int(flips[i]), int(n[i])))
        for i, (low, high) in enumerate(itertools.pairwise(edges.tolist()))
    ]


def flips_by_class(
    truth: IntArray, answer: IntArray, old_right: BoolArray, new_right: BoolArray, names: tuple[str, ...]
) -> list[ClassRow]:
    """One row for each class in `truth` (N,), most flips first, then the higher rate, then by name."""
    size = len(names)
    flipped = old_right & ~new_right
    n, negative, positive, old_wrong, new_wrong = (
        np.bincount(truth[mask], minlength=size)
        for mask in (np.ones_like(flipped), flipped, ~old_right & new_right, ~old_right, ~new_right)
    )
    taken: dict[str, str] = {}
    for row in flips_by_pair(truth[flipped], answer[flipped], np.zeros(size, dtype=np.bool_), names):
        taken.setdefault(row.label, row.answer)
    rows = [
        ClassRow(
            label=names[i],
            n=int(n[i]),
            negative_flips=int(negative[i]),
            positive_flips=int(positive[i]),
            nfr=rate(int(negative[i]), int(n[i])),
            er_old=float(old_wrong[i] / n[i]),
            er_new=float(new_wrong[i] / n[i]),
            taken_by=taken.get(names[i]),
        )
        for i in np.flatnonzero(n)
    ]
    return sorted(rows, key=lambda row: (-row.negative_flips, row.n, row.label))


def flips_by_pair(
    truth: IntArray, answer: IntArray, is_old: BoolArray, names: tuple[str, ...]
) -> list[PairRow]:
    """Flips from class to answer; truth, answer: (F,), over flipped samples. Most first."""
    keys, flips = np.unique(truth * len(names) + answer, return_counts=True)
    rows = [
        PairRow(
            label=names[key // len(names)],
            answer=names[key % len(names)],
            new_class=not is_old[key % len(names)],
            flips=int(count),
        )
        for key, count in zip(keys.tolist(), flips.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.flips, row.label, row.answer))


def flips_by_answer(answer: IntArray, is_old: BoolArray, names: tuple[str, ...]) -> list[WrongAnswerRow]:
    """Which answers took flips; answer: (F,), over flipped samples. Most first."""
    flips = np.bincount(answer, minlength=len(names))
    rows = [
        WrongAnswerRow(answer=names[i], new_class=not is_old[i], flips=int(flips[i]))
        for i in np.flatnonzero(flips)
    ]
    return sorted(rows, key=lambda row: (-row.flips, row.answer))


def worst_flips(
    ids: NDArray[np.str_],
    truth: IntArray,
    answer: IntArray,
    is_old: BoolArray,
    names: tuple[str, ...],
    old_confidence: NDArray[np.float64] | None,
    new_confidence: NDArray[np.float64] | None,
    limit: int,
) -> list[FlippedSample]:
    """At most `limit` flipped samples, worst first; arrays (F,), over flipped samples, sorted by id.

    Worst is where both were sure: the sum of the old model's confidence in the right answer and the new
    model's in the wrong one. Where neither is known, the order of the ids.
    """
    sure = sum((c for c in (old_confidence, new_confidence) if c is not None), start=np.zeros(ids.size))
    return [
        FlippedSample(
            id=str(ids[i]),
            label=names[truth[i]],
            answer=names[answer[i]],
            new_class=not is_old[answer[i]],
            old_confidence=None if old_confidence is None else float(old_confidence[i]),
            new_confidence=None if new_confidence is None else float(new_confidence[i]),
        )
        for i in np.argsort(-sure, kind="stable")[:limit]
    ]
