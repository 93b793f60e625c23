"""Sizes of the test pictures, looked at only where a comparison asks for slices by them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.inference.named_models import NamedModels
from mptctl.machine.facts import usable_cores
from mptctl.names import Part, Progress

if TYPE_CHECKING:
    from mptctl.data.split import Split


def pictures_of(found: NamedModels, progress: Progress) -> Callable[[], PictureSizes] | None:
    """What looks at the test pictures when it is asked; None where no model of ours was."""
    split = found.split
    if split is None:
        return None

    @cache
    def look() -> PictureSizes:
        return _picture_sizes(split, "test", progress)

    return look


def _picture_sizes(split: Split, part: Part, progress: Progress) -> PictureSizes:
    """Look at every picture of one part, as it is stored.

    Args:
        split: whose pictures.
        part: which of them.
        progress: told how many pictures are looked at.

    Raises:
        DataError: a file that is gone, changed or damaged.
    """
    rows = split.indices(part)
    sides: list[int] = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        for side in pool.map(lambda row: min(split.picture(row).shape[:2]), rows.tolist()):
            sides.append(side)
            if len(sides) % 256 == 0:
                progress("looking at pictures", len(sides), len(rows))
    return PictureSizes(split.ids(rows), np.array(sides, dtype=np.int64))
