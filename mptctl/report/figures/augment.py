"""A sheet of training pictures as the model sees them, each below its class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.report.media.svg import short, style

COLUMNS = 8
SIDE = 1.25  # inches of a picture
LETTERS = 22  # of what stands above a picture


def draw_sheet(pictures: NDArray[np.uint8], captions: Sequence[str]) -> Figure:
    """Draws pictures in rows.

    Args:
        pictures: (n, S, S, 3).
        captions: n texts of one line or several.
    """
    columns = min(COLUMNS, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    with style():
        lines = max(caption.count("\n") for caption in captions) + 1
        figure = Figure(figsize=(columns * SIDE, rows * (SIDE + 0.07 + 0.13 * lines)))
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in places:
            axes.set_axis_off()
        for axes, picture, caption in zip(places, pictures, captions, strict=False):
            axes.imshow(picture, interpolation="nearest")
            said = [short(line, LETTERS) for line in caption.split("\n")]
            axes.set_title("\n".join(said), fontsize=7)
    return figure
