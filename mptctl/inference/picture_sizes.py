"""Reads the sizes of test pictures, only if a comparison needs them for slices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.inference.named_models import NamedModels
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress


def make_size_reader(compared: NamedModels, progress: Progress) -> Callable[[], PictureSizes] | None:
    """Make a function that reads the shorter side of every stored test picture at its first call.

    Args:
        compared: the compared models.
        progress: called with the number of pictures read.

    Returns:
        The function, which keeps its result and raises DataError for a file that is missing, changed or
        damaged. None if only predictions files are compared, so that there are no pictures.
    """
    split = compared.split
    if split is None:
        return None

    @cache
    def read_sizes() -> PictureSizes:
        rows = split.indices("test")
        sides: list[int] = []
        with ThreadPoolExecutor(usable_cores()) as pool:
            for side in pool.map(lambda row: min(split.picture(row).shape[:2]), rows.tolist()):
                sides.append(side)
                if len(sides) % 256 == 0:
                    progress("looking at pictures", len(sides), len(rows))
        return PictureSizes(split.ids(rows), np.array(sides, dtype=np.int64))

    return read_sizes
