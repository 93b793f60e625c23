"""The rows of logits: in blocks, refused where no class can be the largest, and the first maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, NonFiniteError

# Elements of logits in a block that is read at once: 8 MB in double precision.
BLOCK = 2**20


def row_blocks(logits: NDArray[Any]) -> list[slice]:
    """Divide the rows of (N, C) logits into slices of about `BLOCK` elements each."""
    rows = max(1, BLOCK // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]


def best_among(
    block: NDArray[Any], columns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Find the largest logit of each row among some columns, and its column, the first of equal ones.

    Args:
        block: (n, C) logits.
        columns: ascending; without any, the largest logit is minus infinity, and its column 0.

    Returns:
        (n,) logits, and (n,) columns.
    """
    if not columns.size:
        return np.full(len(block), -np.inf), np.zeros(len(block), dtype=np.int64)
    part = block[:, columns] if columns.size < block.shape[1] else block
    best = part.argmax(axis=1)
    return np.take_along_axis(part, best[:, None], axis=1)[:, 0], columns[best]


def confidences(logits: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) the softmax probability of the largest logit in n rows of (N, C) logits."""
    found = []
    for some in np.array_split(rows, 1 + rows.size * logits.shape[1] // BLOCK):
        part = np.asarray(logits[some], dtype=np.float64)
        found.append(1 / np.exp(part - part.max(axis=1, keepdims=True)).sum(axis=1))
    return np.concatenate(found)


def refuse_one_column(logits: NDArray[Any], name: str) -> None:
    """Raise DataError where (N, C) logits are one column, as of a sigmoid: it would always be the answer."""
    if logits.shape[1] == 1:
        raise DataError(
            f"{name}: `logits` is one column, of which no class is the largest; write (N, 2), such as zeros "
            "before what goes into the sigmoid, or the predictions as `pred`, (N,)"
        )


def first_maximum(logits: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Find the column of the first maximum of each row of (N, C) logits.

    Args:
        logits: (N, C) floats.
        name: of the model, for messages.

    Raises:
        NonFiniteError: the maximum of a row is NaN or infinite.
    """
    column = np.empty(len(logits), dtype=np.int64)
    bad = 0
    for rows in row_blocks(logits):
        block = np.asarray(logits[rows])
        column[rows] = block.argmax(axis=1)
        # The maximum of a row is NaN with any NaN, +inf with any +inf, and -inf if all are -inf.
        bad += int((~np.isfinite(np.take_along_axis(block, column[rows, None], axis=1))).sum())
    if bad:
        raise NonFiniteError(
            f"{name}: {bad} of {len(logits)} rows of logits are not finite; no rate follows from them"
        )
    return column
