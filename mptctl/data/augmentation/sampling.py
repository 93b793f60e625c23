"""Draws of an epoch in which rare classes come more often, some of their pictures several times."""

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
    """Pictures of an epoch.

    Attributes:
        rows: (n,) rows of the manifest, in the epoch's order.
        copies: (n,) which copy of its row each is, from 0; None where every row comes once.
    """

    rows: Rows
    copies: Rows | None

    def __getitem__(self, part: slice | Rows) -> Draws:
        return Draws(self.rows[part], None if self.copies is None else self.copies[part])


def draw_repeated(
    rows: Rows, labels: Rows, sampling: Literal["balanced", "sqrt"], offset: float, keys: NDArray[np.uint64]
) -> Draws:
    """Draws as many pictures as there are, each class as often as the sampling says.

    The draws of a class are shared out evenly among its pictures: each comes as often as the next one, or
    once more. Which ones do, and to which class a part of a draw is rounded, is random and without bias
    (systematic sampling), so that over the epochs each picture comes as often as its repetition factor says.

    Args:
        rows: (n,) of the manifest.
        labels: (n,) their classes.
        sampling: every class as often as the others, or in proportion to the square root of its pictures.
        offset: random, 0 to 1; decides how parts of a draw are rounded.
        keys: (n,) random; the smallest of a class are drawn once more.

    Returns:
        n draws, by row and copy.

    Of one picture of class 0 and three of class 1, two draws go to each class:

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
    draws = np.diff(np.floor(ends + offset), prepend=np.floor(offset)).astype(np.int64)
    in_class = np.lexsort((keys, group))
    place = np.empty(n, dtype=np.int64)
    place[in_class] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    times = draws[group] // counts[group] + (place < draws[group] % counts[group])
    first = np.cumsum(times) - times
    return Draws(np.repeat(rows, times), np.arange(n) - np.repeat(first, times))
