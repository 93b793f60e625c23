"""Scores of a model's logits, read in one pass: confidence, margin and best logits of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.pairs import Pairing
from mptctl.evaluation.reading.predictions import row_blocks

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Numbers of one model for each of N samples, in the order of a `Pairing`.

    Attributes:
        confidence: (N,) softmax probability of the answer.
        margin: (N,) logit of the true class minus the largest other logit (Pleiss et al. 2020); NaN where the
            model does not know the true class, or knows no other class.
        old_logit: (N,) largest logit among old classes; minus infinity where the model knows none.
        old_answer: (N,) the old class with this logit, as its place in the vocabulary.
        new_logit: (N,) largest logit among the other classes; minus infinity where the model knows none.
        new_answer: (N,) the class with this logit, as its place in the vocabulary.
        old_first: (N,) True where the column of `old_answer` comes first, so that it wins a tie.
    """

    confidence: FloatArray
    margin: FloatArray
    old_logit: FloatArray
    old_answer: NDArray[np.int64]
    new_logit: FloatArray
    new_answer: NDArray[np.int64]
    old_first: NDArray[np.bool_]


def score(pairing: Pairing, role: str, old_classes: frozenset[str]) -> Scores | None:
    """Score the logits of the model in a role, read once in blocks of rows; None where it has no logits."""
    model = pairing.models[role]
    if model.logits is None or model.classes is None:
        return None
    n = len(model)
    place = {label: i for i, label in enumerate(pairing.vocabulary)}
    labels = np.array([place[label] for label in model.classes], dtype=np.int64)  # (C,) column to label
    # Truth in the order of the file, so that its rows are read one after another.
    truth = np.empty(n, dtype=np.int64)
    truth[pairing.rows[role]] = pairing.columns(role)[pairing.truth]
    is_old = np.array([label in old_classes for label in model.classes], dtype=np.bool_)

    confidence, margin = np.empty(n), np.full(n, np.nan)
    best = {old: (np.full(n, -np.inf), np.zeros(n, dtype=np.int64)) for old in (True, False)}
    for rows in row_blocks(model.logits):
        block = np.array(model.logits[rows], dtype=np.float64)
        for old, (value, at) in best.items():
            columns = np.flatnonzero(is_old == old)
            if columns.size:
                part = block[:, columns] if columns.size < block.shape[1] else block
                here = part.argmax(axis=1)
                at[rows] = columns[here]
                value[rows] = np.take_along_axis(part, here[:, None], axis=1)[:, 0]
        top = np.maximum(best[True][0][rows], best[False][0][rows])[:, None]
        with np.errstate(over="ignore"):  # a difference that overflows is infinite
            confidence[rows] = 1 / np.exp(block - top).sum(axis=1)
        known = np.flatnonzero(truth[rows] >= 0)
        if known.size and block.shape[1] > 1:
            right = truth[rows][known]
            own = block[known, right]
            block[known, right] = -np.inf
            other = block.max(axis=1)[known]
            # Where both logits are minus infinity there is no margin.
            both = np.isinf(own) & np.isinf(other)
            with np.errstate(over="ignore"):
                gap = np.where(both, 0, own) - np.where(both, 0, other)
            margin[rows.start + known] = np.where(both, np.nan, gap)

    order = pairing.rows[role]
    return Scores(
        confidence[order],
        margin[order],
        best[True][0][order],
        labels[best[True][1][order]],
        best[False][0][order],
        labels[best[False][1][order]],
        (best[True][1] <= best[False][1])[order],
    )
