"""What a comparison of models of ours asks for only where it needs it: a validation part, and a look at pictures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.inference.named_models import JUDGED, NamedModels, load_predictions
from mptctl.machine.facts import usable_cores
from mptctl.names import Part

if TYPE_CHECKING:
    from mptctl.data.split import Split


def validation_part(
    found: NamedModels,
    new: str,
    run_root: Path,
    *,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Callable[[], Predictions | None] | None:
    """What asks for a new model's validation part when it is needed; None where old or new is no model of ours.

    Args:
        found: the models on the test part.
        new: what a person called the new one.
        run_root, device, progress: as for `load_predictions`.
    """
    split = found.split
    if split is None or any(found.models[role].origin == "file" for role in JUDGED):
        return None

    def ask() -> Predictions | None:
        if not len(split.indices("val")):
            return None
        asked = load_predictions({"new": new}, run_root, part="val", device=device, progress=progress)
        return asked.models["new"]

    return ask


def pictures_of(
    found: NamedModels, progress: Callable[[str, int, int], None] | None = None
) -> Callable[[], PictureSizes] | None:
    """What looks at the test pictures when it is asked; None where no model of ours was."""
    split = found.split
    if split is None:
        return None

    @cache
    def look() -> PictureSizes:
        return _picture_sizes(split, "test", progress)

    return look


def _picture_sizes(
    split: Split, part: Part, progress: Callable[[str, int, int], None] | None = None
) -> PictureSizes:
    """Look at every picture of one part, as it is stored.

    Args:
        split: whose pictures.
        part: which of them.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        DataError: a file that is gone, changed or damaged.
    """
    rows = split.indices(part)
    sides: list[int] = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        for side in pool.map(lambda row: min(split.picture(row).shape[:2]), rows.tolist()):
            sides.append(side)
            if progress is not None and len(sides) % 256 == 0:
                progress("looking at pictures", len(sides), len(rows))
    return PictureSizes(split.ids(rows), np.array(sides, dtype=np.int64))
