"""Draw 2-dimensional features with the regions of their classifier, as in the paper's Figure 3."""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from mptctl.inference.embedding import Embedding
from mptctl.report.media.numbers import percent
from mptctl.report.media.svg import INK, style

MARKS = {"old classes": "o", "new classes": "^"}
PANEL = 3.1  # inches, each way
PANELS_A_ROW = 3  # at most
LEGEND_WIDTH = 1.4  # inches
# Classes that colours can tell apart, the colours of tab20; with more, the legend explains markers only.
MOST_NAMED = 20
# Cells of the drawn plane along each side; strength of a class's colour in its region, 0 to 1.
GRID, TINT = 400, 0.25
# More points than this would make an SVG of megabytes: they are drawn as one picture inside it.
MOST_VECTORS = 2_000


def draw_embeddings(embeddings: Mapping[str, Embedding]) -> Figure:
    """Draw one panel for each model; all share the classes and colours of the legend.

    Args:
        embeddings: at least one, by the title of its panel; all of one split.
    """
    rows = math.ceil(len(embeddings) / PANELS_A_ROW)
    columns = math.ceil(len(embeddings) / rows)  # four panels are two rows of two
    with style():
        figure = Figure(figsize=(columns * PANEL + LEGEND_WIDTH, rows * (PANEL + 0.3)))
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (name, embedding) in zip(panels, embeddings.items(), strict=False):
            _draw_panel(axes, name, embedding)
        for axes in panels[len(embeddings) :]:
            axes.remove()
        _add_legend(figure, next(iter(embeddings.values())))
    return figure


def class_colours(num_classes: int) -> list[str]:
    """A colour for each class in the split's order, as ``#rrggbb``; up to 20 classes differ clearly."""
    if num_classes > MOST_NAMED:
        return [to_hex(matplotlib.colormaps["hsv"](i / num_classes)) for i in range(num_classes)]
    listed = matplotlib.colormaps["tab10" if num_classes <= 10 else "tab20"]
    return [to_hex(listed(i)) for i in range(num_classes)]


def _draw_panel(axes: Axes, name: str, embedding: Embedding) -> None:
    """Draw the regions of classes, the border between old and new classes, and the pictures' features."""
    colours = np.array([to_rgb(colour) for colour in class_colours(len(embedding.class_names))])
    _draw_regions(axes, embedding, colours)
    _draw_points(axes, embedding, colours)
    known = f"{len(embedding.columns)} classes, error {percent(embedding.error)}"
    axes.set_title(f"{name}\n{known}", fontsize=9)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)


def _draw_regions(axes: Axes, embedding: Embedding, colours: NDArray[np.float64]) -> None:
    """Draw the plane around all points, each cell in the tint of its class, and the border of new classes.

    Args:
        axes: to draw in, which then show this plane.
        embedding: the points and their classifier.
        colours: (C, 3) of the classes, 0 to 1.
    """
    low = embedding.points.min(axis=0)
    high = embedding.points.max(axis=0)
    # A square with a margin of 5 %, so that distances are the same both ways; of side 2 if all points agree.
    half_side = 1.05 * float((high - low).max()) / 2 or 1.0
    middle = (low + high) / 2
    x = np.linspace(middle[0] - half_side, middle[0] + half_side, GRID)
    y = np.linspace(middle[1] - half_side, middle[1] + half_side, GRID)
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    class_of_cell = embedding.predict(plane).reshape(GRID, GRID)
    axes.imshow(
        1 - TINT * (1 - colours[class_of_cell]),
        extent=(x[0], x[-1], y[0], y[-1]),
        origin="lower",
        interpolation="nearest",
        zorder=0,
    )
    is_new = class_of_cell >= embedding.num_old
    if is_new.any() and not is_new.all():
        axes.contour(x, y, is_new, levels=[0.5], colors=INK, linewidths=0.8, zorder=1)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _draw_points(axes: Axes, embedding: Embedding, colours: NDArray[np.float64]) -> None:
    """Draw the pictures' features, with another marker for old than for new classes."""
    is_new = embedding.labels >= embedding.num_old
    for marker, is_member in zip(MARKS.values(), (~is_new, is_new), strict=True):
        # Shuffled, so that no class hides the one before it.
        members = np.random.default_rng(0).permutation(np.flatnonzero(is_member))
        axes.scatter(
            embedding.points[members, 0],
            embedding.points[members, 1],
            s=9,
            c=colours[embedding.labels[members]],
            marker=marker,
            edgecolors="white",
            linewidths=0.2,
            zorder=2,
            rasterized=len(embedding.points) > MOST_VECTORS,
        )


def _add_legend(figure: Figure, embedding: Embedding) -> None:
    """Explain the markers, and the colours of at most `MOST_NAMED` classes, on the right of the figure."""
    names = embedding.class_names
    coloured = list(zip(names, class_colours(len(names)), strict=True))
    handles: list[Line2D] = []
    groups = (coloured[: embedding.num_old], coloured[embedding.num_old :])
    for (title, marker), classes in zip(MARKS.items(), groups, strict=True):
        if classes:
            handles.append(_marker(title, INK, marker))
        if len(names) <= MOST_NAMED:
            handles += [_marker(name, colour, marker) for name, colour in classes]
    if embedding.num_old < len(names):
        handles.append(Line2D([], [], color=INK, linewidth=0.8, label="border of the two"))
    figure.legend(handles=handles, loc="outside right center", alignment="left")


def _marker(label: str, colour: str, marker: str) -> Line2D:
    """A marker without a line, for the legend."""
    return Line2D([], [], color=colour, marker=marker, linestyle="", markersize=4, label=label)
