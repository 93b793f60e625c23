"""Draw a sheet of training pictures as the model sees them, each below its caption."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.report.media.svg import shorten, style

COLUMNS = 8
SIDE = 1.25  # inches of a picture's side
LETTERS = 22  # in a line of a caption at most


def draw_sheet(pictures: NDArray[np.uint8], captions: Sequence[str]) -> Figure:
    """Draw pictures in rows of `COLUMNS`.

    Args:
        pictures: (n, S, S, 3), at least one.
        captions: n texts of one line or several; long lines are shortened.
    """
    columns = min(COLUMNS, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    with style():
        most_lines = max(caption.count("\n") for caption in captions) + 1
        figure = Figure(figsize=(columns * SIDE, rows * (SIDE + 0.07 + 0.13 * most_lines)))
        cells = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in cells:
            axes.set_axis_off()
        for axes, picture, caption in zip(cells, pictures, captions, strict=False):
            axes.imshow(picture, interpolation="nearest")
            lines_shown = [shorten(line, LETTERS) for line in caption.split("\n")]
            axes.set_title("\n".join(lines_shown), fontsize=7)
    return figure
