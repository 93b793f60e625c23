"""Size and brightness of the pictures of a split, for slices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mptctl.data.split import Split
from mptctl.evaluation.slices.derived_columns import PictureFacts
from mptctl.machine.facts import usable_cores
from mptctl.names import Part

# Of red, green and blue in brightness (ITU-R BT.601), as in PIL's convert("L").
LUMA = np.array([0.299, 0.587, 0.114])


def picture_facts(
    split: Split, part: Part, progress: Callable[[str, int, int], None] | None = None
) -> PictureFacts:
    """Look at every picture of one part, as it is stored.

    Args:
        split: whose pictures. part: which of them.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        DataError: a file that is gone, changed or damaged.
    """
    rows = split.indices(part)

    def look(row: int) -> tuple[int, float]:
        picture = split.picture(row)
        means = picture.reshape(-1, picture.shape[-1]).mean(axis=0)
        return min(picture.shape[:2]), float(
            means @ (LUMA if len(means) == 3 else np.full(len(means), 1 / len(means)))
        )

    found: list[tuple[int, float]] = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        for each in pool.map(look, rows.tolist()):
            found.append(each)
            if progress is not None and len(found) % 256 == 0:
                progress("looking at pictures", len(found), len(rows))
    sides, brightness = zip(*found, strict=True) if found else ((), ())
    return PictureFacts(
        split.ids(rows), np.array(sides, dtype=np.int64), np.array(brightness, dtype=np.float64)
    )
