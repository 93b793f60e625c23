"""Scores of a model's logits, read in one pass: confidence and best logits of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.pairing.join import Pairing
from mptctl.evaluation.reading.logits import best_among, row_blocks

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Numbers of one model for each of N samples, in the order of a `Pairing`.

    Attributes:
        confidence: (N,) softmax probability of the answer.
        old_logit: (N,) largest logit among old classes; minus infinity where the model knows none.
        old_answer: (N,) the old class with this logit, as its index in the vocabulary.
        new_logit: (N,) largest logit among the other classes; minus infinity where the model knows none.
        new_answer: (N,) the class with this logit, as its index in the vocabulary.
        old_first: (N,) True where the column of `old_answer` comes first, so that it wins a tie.
    """

    confidence: FloatArray
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
    index_of = {label: index for index, label in enumerate(pairing.vocabulary)}
    label_of_column = np.array([index_of[label] for label in model.classes], dtype=np.int64)
    is_old = np.array([label in old_classes for label in model.classes], dtype=np.bool_)
    old_columns, new_columns = np.flatnonzero(is_old), np.flatnonzero(~is_old)

    confidence, old_logit, new_logit = np.empty(n), np.empty(n), np.empty(n)
    old_column, new_column = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for rows in row_blocks(model.logits):
        block = np.asarray(model.logits[rows], dtype=np.float64)
        old_logit[rows], old_column[rows] = best_among(block, old_columns)
        new_logit[rows], new_column[rows] = best_among(block, new_columns)
        largest = np.maximum(old_logit[rows], new_logit[rows])[:, None]
        with np.errstate(over="ignore"):  # a difference that overflows is infinite
            confidence[rows] = 1 / np.exp(block - largest).sum(axis=1)

    return Scores(
        confidence=confidence[order],
        old_logit=old_logit[order],
        old_answer=label_of_column[old_column[order]],
        new_logit=new_logit[order],
        new_answer=label_of_column[new_column[order]],
        old_first=(old_column <= new_column)[order],
    )
