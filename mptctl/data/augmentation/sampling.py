"""Draws the pictures of an epoch in which rare classes come more often, by repeating their pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
# A class of n pictures is drawn in proportion to n to this power.
POWER: dict[Literal["balanced", "sqrt"], float] = {"balanced": 0.0, "sqrt": 0.5}


@dataclass(frozen=True)
class Draws:
    """Pictures of an epoch, some of which may come several times.

    Attributes:
        rows: (n,) rows of the manifest, in the epoch's order.
        copies: (n,) number of each picture among those of the same row, from 0; None if each row comes once.
    """

    rows: Rows
    copies: Rows | None

    def __getitem__(self, part: slice | Rows) -> Draws:
        return Draws(self.rows[part], None if self.copies is None else self.copies[part])


def draw_repeated(
    rows: Rows, labels: Rows, sampling: Literal["balanced", "sqrt"], offset: float, keys: NDArray[np.uint64]
) -> Draws:
    """Draw n pictures out of n, so that each class comes as often as the sampling says.

    The draws of a class are shared out evenly among its pictures: their numbers of draws differ by at most
    one. Systematic sampling rounds the draws of each class to a whole number without bias, so that over the
    epochs a picture comes on average as often as the sampling says.

    Args:
        rows: (n,) rows of the manifest.
        labels: (n,) classes of the rows.
        sampling: ``balanced``: every class equally often; ``sqrt``: in proportion to the square root of the
            number of its pictures.
        offset: random, 0 to 1; decides which classes are rounded up.
        keys: (n,) random; of each class, the pictures with the smallest keys get the extra draws.

    Returns:
        n draws, sorted by row of the input, then copy.

    With one picture of class 0 and three of class 1, each class gets two of the four draws:

    >>> rows, labels = np.array([4, 5, 6, 7]), np.array([0, 1, 1, 1])
    >>> drawn = draw_repeated(rows, labels, "balanced", 0.5, np.array([9, 3, 8, 1], dtype=np.uint64))
    >>> drawn.rows.tolist(), drawn.copies.tolist()
    ([4, 4, 5, 7], [0, 1, 0, 0])
    """
    n = len(rows)
    _, group, counts = np.unique(labels, return_inverse=True, return_counts=True)
    shares = counts.astype(np.float64) ** POWER[sampling]
    ends = n * np.cumsum(shares) / shares.sum()
    ends[-1:] = n
    class_draws = np.diff(np.floor(ends + offset), prepend=np.floor(offset)).astype(np.int64)
    by_class_and_key = np.lexsort((keys, group))
    rank_in_class = np.empty(n, dtype=np.int64)
    rank_in_class[by_class_and_key] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    gets_extra_draw = rank_in_class < class_draws[group] % counts[group]
    row_draws = class_draws[group] // counts[group] + gets_extra_draw
    first_draw = np.cumsum(row_draws) - row_draws
    return Draws(np.repeat(rows, row_draws), np.arange(n) - np.repeat(first_draw, row_draws))
