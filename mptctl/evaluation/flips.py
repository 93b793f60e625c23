"""Negative flips as rates, and by class, by answer and by the old model's confidence."""

from __future__ import annotations

import itertools

import numpy as np

from mptctl.evaluation.flip_report import (
    ClassRow,
    ConfidenceRow,
    Destinations,
    FlippedSample,
    MorePairs,
    PairRow,
    WrongAnswerRow,
)
from mptctl.evaluation.pairing.paired_answers import PairedAnswers, summed
from mptctl.evaluation.rates import Counts, Rate, Rates, negative_flips
from mptctl.evaluation.statistics import expected_flips, rate, relative_nfr, relative_nfr_interval

# Ranges of the old model's confidence: guesses, leanings, and ever surer answers.
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)
# Chosen: pairs of class and answer that are listed. Of a thousand classes there may be hundreds of thousands,
# which nobody reads, and which would take longer to write than ten million samples take to be paired.
MOST_PAIRS = 1_000


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


def destinations(answers: PairedAnswers) -> Destinations:
    """The flips that went to old classes, and those that went to new ones."""
    _, answer, n = answers.flipped_cells
    to_old, all_flips = int(n[answers.is_old_class[answer]].sum()), int(n.sum())
    return Destinations(
        to_old_class=rate(to_old, all_flips), to_new_class=rate(all_flips - to_old, all_flips)
    )


def flips_by_confidence(answers: PairedAnswers) -> list[ConfidenceRow] | None:
    """Flips by the old model's confidence, among its right answers; None where it has no logits."""
    if "old" not in answers.scores:
        return None
    confidence = answers.scores["old"].confidence[answers.to_keep]
    edges = np.array(CONFIDENCE_EDGES)
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, edges.size - 2)
    n = np.bincount(place, minlength=edges.size - 1)
    flips = np.bincount(place[answers.flipped[answers.to_keep]], minlength=edges.size - 1)
    return [
        ConfidenceRow(low=low, high=high, flips=rate(int(flips[i]), int(n[i])))
        for i, (low, high) in enumerate(itertools.pairwise(edges.tolist()))
    ]


def flips_by_class(answers: PairedAnswers) -> list[ClassRow]:
    """A row for each old class with samples, most flips first, then the higher rate, then by name."""
    names, cells, of_old = answers.pairing.vocabulary, answers.pairing.cells, answers.cells_of_old
    old_right, new_right = cells.right["old"], cells.right["new"]
    n, negative, positive, old_wrong, new_wrong = (
        summed(cells.truth[mask & of_old], cells.n[mask & of_old], len(names))
        for mask in (
            of_old,
            negative_flips(old_right, new_right),
            negative_flips(new_right, old_right),
            ~old_right,
            ~new_right,
        )
    )
    pairs = answers.flipped_pairs
    # Most flips come first, so that the first answer of a class is the one that took most.
    classes, first = np.unique(pairs.truth, return_index=True)
    taken = dict(zip(classes.tolist(), pairs.answer[first].tolist(), strict=True))
    rows = [
        ClassRow(
            label=names[i],
            n=int(n[i]),
            negative_flips=int(negative[i]),
            positive_flips=int(positive[i]),
            nfr=rate(int(negative[i]), int(n[i])),
            er_old=float(old_wrong[i] / n[i]),
            er_new=float(new_wrong[i] / n[i]),
            taken_by=names[taken[i]] if i in taken else None,
        )
        for i in np.flatnonzero(n).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.negative_flips, row.n, row.label))


def flips_by_pair(answers: PairedAnswers) -> tuple[list[PairRow], MorePairs]:
    """Flips from class to answer, most first: the most frequent pairs, and what is left out."""
    names, is_old = answers.pairing.vocabulary, answers.is_old_class
    pairs = answers.flipped_pairs
    rows = [
        PairRow(label=names[truth], answer=names[answer], new_class=not is_old[answer], flips=n)
        for truth, answer, n in zip(
            *(part[:MOST_PAIRS].tolist() for part in (pairs.truth, pairs.answer, pairs.flips)), strict=True
        )
    ]
    rest = pairs.flips[MOST_PAIRS:]
    return rows, MorePairs(pairs=rest.size, flips=int(rest.sum()))


def flips_by_answer(answers: PairedAnswers) -> list[WrongAnswerRow]:
    """The answers that took flips, most first."""
    names = answers.pairing.vocabulary
    _, answer, n = answers.flipped_cells
    flips = summed(answer, n, len(names))
    rows = [
        WrongAnswerRow(answer=names[i], new_class=not answers.is_old_class[i], flips=int(flips[i]))
        for i in np.flatnonzero(flips)
    ]
    return sorted(rows, key=lambda row: (-row.flips, row.answer))


def worst_flips(answers: PairedAnswers, limit: int) -> list[FlippedSample]:
    """At most `limit` flipped samples, worst first.

    Worst is where both were sure: the sum of the old model's confidence in the right answer and the new
    model's in the wrong one. Where neither is known, the order of the ids.
    """
    pairing = answers.pairing
    if not answers.scores:
        found = pairing.join.first_flips(sorted(answers.old_classes), limit, answers.counts().negative_flips)
        return [_flipped(answers, *sample, None, None) for sample in found]
    names, at = pairing.vocabulary, np.flatnonzero(answers.flipped)
    confidence = {role: scores.confidence[at] for role, scores in answers.scores.items()}
    sure = sum((confidence[role] for role in ("old", "new") if role in confidence), start=np.zeros(at.size))
    worst = np.argsort(-sure, kind="stable")[:limit]
    ids = pairing.models["old"].table.ids_at(pairing.rows["old"][at[worst]].tolist())
    return [
        _flipped(
            answers,
            sample,
            names[pairing.truth[at[i]]],
            names[pairing.answers["new"][at[i]]],
            float(confidence["old"][i]) if "old" in confidence else None,
            float(confidence["new"][i]) if "new" in confidence else None,
        )
        for sample, i in zip(ids, worst.tolist(), strict=True)
    ]


def _flipped(
    answers: PairedAnswers, sample: str, label: str, answer: str, old: float | None, new: float | None
) -> FlippedSample:
    return FlippedSample(
        id=sample,
        label=label,
        answer=answer,
        new_class=answer not in answers.old_classes,
        old_confidence=old,
        new_confidence=new,
    )
