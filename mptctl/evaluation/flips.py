"""Negative flips as rates, by class and by wrong answer; the worst flips."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.flip_report import ClassRow, Destinations, FlippedSample, PairRow
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.rates import Counts, Rate, Rates
from mptctl.evaluation.statistics import expected_flips, rate, relative_nfr, relative_nfr_interval

# Chosen: most pairs of class and answer that are listed. A thousand classes may have hundreds of thousands of
# pairs, which nobody reads, and which take longer to write than ten million samples take to be paired.
MOST_PAIRS = 1_000


def flip_rates(counts: Counts, changed: int) -> Rates:
    """Compute all rates of a flip table, with their intervals.

    Args:
        counts: the flip table.
        changed: how many of its samples the new model answers differently, right or wrong.
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
    """Count the flips whose new answer is an old class, and those whose new answer is a new class."""
    pairs = answers.flipped_pairs
    all_flips = int(pairs.flips.sum())
    to_old = int(pairs.flips[answers.is_old_class[pairs.answer]].sum())
    return Destinations(
        to_old_class=rate(to_old, all_flips), to_new_class=rate(all_flips - to_old, all_flips)
    )


def flips_by_class(answers: PairedAnswers) -> list[ClassRow]:
    """Count the flips of each old class with samples; most flips first, then higher rate, then name."""
    names = answers.pairing.vocabulary
    n = answers.by_class.sum(axis=1)
    _, negative, positive, both_wrong = answers.by_class.T
    pairs = answers.flipped_pairs
    # The pairs with most flips come first, so the first answer of a class is the one that took most.
    classes, first = np.unique(pairs.truth, return_index=True)
    taken_by = dict(zip(classes.tolist(), pairs.answer[first].tolist(), strict=True))
    rows = [
        ClassRow(
            label=names[i],
            n=int(n[i]),
            negative_flips=int(negative[i]),
            positive_flips=int(positive[i]),
            nfr=rate(int(negative[i]), int(n[i])),
            er_old=float((positive[i] + both_wrong[i]) / n[i]),
            er_new=float((negative[i] + both_wrong[i]) / n[i]),
            taken_by=names[taken_by[i]] if i in taken_by else None,
        )
        for i in np.flatnonzero(n).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.negative_flips, row.n, row.label))


def flips_by_pair(answers: PairedAnswers) -> list[PairRow]:
    """List the `MOST_PAIRS` pairs of true class and wrong answer with most flips, most first."""
    names = answers.pairing.vocabulary
    is_old = answers.is_old_class
    pairs = answers.flipped_pairs
    listed = zip(pairs.truth[:MOST_PAIRS], pairs.answer[:MOST_PAIRS], pairs.flips[:MOST_PAIRS], strict=True)
    return [
        PairRow(label=names[truth], answer=names[answer], new_class=not is_old[answer], flips=int(n))
        for truth, answer, n in listed
    ]


def worst_flips(answers: PairedAnswers, limit: int) -> list[FlippedSample]:
    """List at most `limit` flipped samples, worst first.

    The worst flips are those of which both models were sure: by the sum of the old model's confidence in the
    right answer and the new model's confidence in the wrong one, as far as they have logits. Where no model
    has logits, the flips are in the order of their ids.
    """
    pairing = answers.pairing
    flips = np.flatnonzero(answers.flipped)
    confidence = {role: scores.confidence for role, scores in answers.scores.items()}
    if confidence:
        sureness = sum((of_role[flips] for of_role in confidence.values()), start=np.zeros(flips.size))
        worst = flips[np.argsort(-sureness, kind="stable")[:limit]]
        id_of = {number: name for name, number in pairing.by_id(worst).items()}
    else:
        id_of = {number: name for name, number in pairing.by_id(flips, limit).items()}
        worst = np.array([*id_of], dtype=np.int64)
    return [
        FlippedSample(
            id=id_of[sample],
            label=pairing.vocabulary[pairing.truth[sample]],
            answer=pairing.vocabulary[pairing.answers["new"][sample]],
            new_class=not answers.is_old_class[pairing.answers["new"][sample]],
            old_confidence=float(confidence["old"][sample]) if "old" in confidence else None,
            new_confidence=float(confidence["new"][sample]) if "new" in confidence else None,
        )
        for sample in worst.tolist()
    ]
