"""Scores of a model's logits, read in one pass: confidence, margin and best logits of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.join import Pairing
from mptctl.evaluation.reading.logits import row_blocks

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
    order = pairing.rows[role]  # (N,) the row of each sample in the file, in which logits are read
    truth = np.empty(n, dtype=np.int64)  # (N,) the column of the true class of each row
    truth[order] = pairing.columns(role)[pairing.truth]
    place = {label: i for i, label in enumerate(pairing.vocabulary)}
    label_of_column = np.array([place[label] for label in model.classes], dtype=np.int64)
    is_old = np.array([label in old_classes for label in model.classes], dtype=np.bool_)

    confidence, margin = np.empty(n), np.empty(n)
    old_logit, old_column = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
    new_logit, new_column = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
    groups = (
        (np.flatnonzero(is_old), old_logit, old_column),
        (np.flatnonzero(~is_old), new_logit, new_column),
    )
    for rows in row_blocks(model.logits):
        block = np.array(model.logits[rows], dtype=np.float64)
        for columns, best_logit, best_column in groups:
            if columns.size:
                part = block[:, columns] if columns.size < block.shape[1] else block
                best = part.argmax(axis=1)
                best_column[rows] = columns[best]
                best_logit[rows] = np.take_along_axis(part, best[:, None], axis=1)[:, 0]
        largest = np.maximum(old_logit[rows], new_logit[rows])[:, None]
        with np.errstate(over="ignore"):  # a difference that overflows is infinite
            confidence[rows] = 1 / np.exp(block - largest).sum(axis=1)
        margin[rows] = _margins(block, truth[rows])

    return Scores(
        confidence=confidence[order],
        margin=margin[order],
        old_logit=old_logit[order],
        old_answer=label_of_column[old_column[order]],
        new_logit=new_logit[order],
        new_answer=label_of_column[new_column[order]],
        old_first=(old_column <= new_column)[order],
    )


def _margins(block: FloatArray, truth: NDArray[np.int64]) -> FloatArray:
    """(n,) the true class's logit minus the largest other one; overwrites the logits of true classes.

    Args:
        block: (n, C) logits.
        truth: (n,) column of the true class; -1 where the model does not know it.

    Returns:
        NaN where the model does not know the true class or has no other, and where both logits are minus
        infinity.
    """
    margin = np.full(len(block), np.nan)
    known = np.flatnonzero(truth >= 0)
    if known.size and block.shape[1] > 1:
        own = block[known, truth[known]]
        block[known, truth[known]] = -np.inf
        other = block.max(axis=1)[known]
        both_infinite = np.isinf(own) & np.isinf(other)
        with np.errstate(over="ignore"):
            difference = np.where(both_infinite, 0, own) - np.where(both_infinite, 0, other)
        margin[known] = np.where(both_infinite, np.nan, difference)
    return margin
