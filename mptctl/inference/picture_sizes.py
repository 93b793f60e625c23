"""The sizes of test pictures, for slices of a comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.inference.named_models import NamedModels


def make_size_reader(compared: NamedModels) -> Callable[[], PictureSizes] | None:
    """Make a function that returns the shorter side of every test picture, as the split's table has it.

    Args:
        compared: the compared models.

    Returns:
        None if only predictions files are compared, so that there are no pictures.
    """
    split = compared.split
    if split is None:
        return None
    rows, manifest = split.indices("test"), split.manifest
    sides = np.minimum(manifest.heights[rows], manifest.widths[rows]).astype(np.int64)
    return lambda: PictureSizes(split.ids(rows), sides)
