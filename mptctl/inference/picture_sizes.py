"""Sizes of the test pictures, looked at only where a comparison asks for slices by them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.inference.named_models import NamedModels
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress


def lazy_picture_sizes(found: NamedModels, progress: Progress) -> Callable[[], PictureSizes] | None:
    """A function that looks at every test picture, as it is stored, at its first call.

    Args:
        found: the models that are compared.
        progress: told how many pictures are looked at.

    Returns:
        The function, which raises DataError for a file that is gone, changed or damaged; None where no model
        of ours is compared, and there are no pictures.
    """
    split = found.split
    if split is None:
        return None

    @cache
    def look() -> PictureSizes:
        rows = split.indices("test")
        sides: list[int] = []
        with ThreadPoolExecutor(usable_cores()) as pool:
            for side in pool.map(lambda row: min(split.picture(row).shape[:2]), rows.tolist()):
                sides.append(side)
                if len(sides) % 256 == 0:
                    progress("looking at pictures", len(sides), len(rows))
        return PictureSizes(split.ids(rows), np.array(sides, dtype=np.int64))

    return look
