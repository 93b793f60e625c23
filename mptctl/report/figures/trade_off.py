"""The figure of a comparison: NFR against error, for every method and seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox, BboxBase

from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, short, style
from mptctl.studies.comparison import BIAS_ROW, ComparisonRow

# Twenty looks: the colour changes first, the mark with every fifth row.
COLOURS, MARKS = (OLD, NEW, LOST, FRESH, INK), ("o", "s", "^", "D")
# Letters of a name.
LETTERS = 24
# Points squared of a seed's mark, as of those in the inset, and of the mean's mark by plain training's cost.
SEED_AREA, COST_AREA = 12, 40
# An outlier is a mark without which the others take less than this part of the axis; at most one of four is.
CROWDED, OUTLIERS = 0.6, 4
# Inches of an inset.
INSET = (1.7, 1.2)
# Points between a mark and its name: beside it, or where a line leads to it.
DISTANCES = (2, 12, 24, 38)
LEADER = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


class _Mark(NamedTuple):
    """A row of the table: its look, its mean, and its seeds."""

    row: ComparisonRow
    colour: str
    marker: str
    mean: tuple[float, float]
    seeds: list[tuple[float, float]]

    @property
    def area(self) -> float:
        """Points squared, as the cost of training."""
        return COST_AREA * (1.0 if self.row.cost is None else self.row.cost)

    @property
    def fill(self) -> str:
        """The colour within; what is free stands hollow."""
        return "none" if self.row.method == BIAS_ROW else self.colour


def draw_trade_off(rows: list[ComparisonRow]) -> Figure:
    """NFR over error on all classes, for every method and seed; each is named beside its mark.

    Rows far above all others in either rate stand in an inset, so that the others have room.
    """
    marks = _marks(rows)
    far = _outliers(marks)
    near = [mark for mark in marks if mark not in far]
    with style():
        height = SIZE[1] + 0.1 * len(rows)
        figure = Figure(figsize=(SIZE[0], height + INSET[1] if far else height))
        axes = figure.subplots()
        for mark in near:
            _draw(axes, mark)
        axes.set(xlabel="error on all classes, %", ylabel="NFR, %")
        axes.margins(x=0.15, y=0.1)
        # Above all marks there is room for the inset.
        axes.set_ylim(0, axes.get_ylim()[1] * (1 + INSET[1] / height if far else 1))
        insets = [_inset(figure, axes, marks)] if far else []
        figure.draw_without_rendering()  # the layout says where marks are
        _name(figure, axes, near, figure.bbox)
        for inset in insets:
            _name(figure, inset, far, inset.bbox)
    return figure


def _marks(rows: list[ComparisonRow]) -> list[_Mark]:
    """The rows that have both rates; that of the bias has the look of the plain update it was made from."""
    looks = {row.name: (COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)])
             for i, row in enumerate(row for row in rows if row.method != BIAS_ROW)}  # fmt: skip
    found = []
    for row in rows:
        if row.er_all.mean is not None and row.nfr.mean is not None:
            seeds = [
                (100 * error, 100 * nfr)
                for error, nfr in zip(row.er_all.values, row.nfr.values, strict=True)
                if error is not None and nfr is not None
            ]
            mean = 100 * row.er_all.mean, 100 * row.nfr.mean
            found.append(_Mark(row, *(looks.get(row.name) or next(iter(looks.values()))), mean, seeds))
    return found


def _outliers(marks: Sequence[_Mark]) -> list[_Mark]:
    """Marks without which the others take much less of an axis; NFR begins at zero."""
    for axis, number in product((0, 1), range(1, len(marks) // OUTLIERS + 1)):
        ordered = sorted(marks, key=lambda mark: mark.mean[axis])
        low = 0.0 if axis else ordered[0].mean[0]
        if ordered[-1 - number].mean[axis] - low < CROWDED * (ordered[-number].mean[axis] - low):
            return ordered[-number:]
    return []


def _draw(axes: Axes, mark: _Mark) -> None:
    """A mark for the mean, its area as the cost, joined to a small one for each seed."""
    x, y = mark.mean
    for error, nfr in mark.seeds:
        axes.plot([x, error], [y, nfr], color=mark.colour, linewidth=0.6, alpha=0.6)
        axes.scatter(
            [error], [nfr], s=SEED_AREA, facecolors=mark.fill, edgecolors=mark.colour, marker=mark.marker,
            linewidths=0.8, clip_on=False, zorder=4,
        )  # fmt: skip
    # Cheap ones above costly ones, so that none lies hidden.
    axes.scatter(
        [x], [y], s=mark.area, facecolors=mark.fill, edgecolors=mark.colour, marker=mark.marker,
        clip_on=False, label=mark.row.name, alpha=0.6, zorder=3 - mark.area / 10**6,
    )  # fmt: skip


def _inset(figure: Figure, axes: Axes, marks: Sequence[_Mark]) -> Axes:
    """Draw all means small, on the right above the others."""
    width, height = INSET[0] / SIZE[0], INSET[1] / figure.get_figheight()
    inset = axes.inset_axes((1 - width, 1 - 0.9 * height, width, 0.9 * height))
    inset.set_title("all rows", fontsize=8, pad=2)
    inset.tick_params(labelsize=8, pad=1, length=2)
    for mark in marks:
        inset.scatter(
            *mark.mean, s=SEED_AREA, facecolors=mark.fill, edgecolors=mark.colour, marker=mark.marker,
            linewidths=0.8,
        )  # fmt: skip
    inset.margins(0.15)
    inset.set_ylim(bottom=0)
    return inset


def _name(figure: Figure, axes: Axes, marks: Sequence[_Mark], room: BboxBase) -> None:
    """Write each name where it hides least and no other mark is nearer; a line leads to one further off.

    Args:
        figure: laid out.
        axes: of the figure.
        marks: of the names.
        room: in pixels, that names are to keep to.
    """
    points = figure.dpi / 72
    main = room is not axes.bbox
    radii = [points * 0.5 * math.sqrt(mark.area if main else SEED_AREA) for mark in marks]
    means = [_around(axes, mark.mean, radius) for mark, radius in zip(marks, radii, strict=True)]
    taken = [*means, *(_around(axes, seed, 2 * points) for mark in marks for seed in mark.seeds if main)]
    for own, mark in sorted(enumerate(marks), key=lambda each: -each[1].mean[1]):
        found = list[tuple[float, int, Annotation, Bbox]]()
        for distance, across, up in product(DISTANCES, (1, -1, 0), (0, 1, -1)):
            if (across, up) == (0, 0):
                continue
            away = distance + radii[own] / points
            text = axes.annotate(
                short(mark.row.name, LETTERS), mark.mean, xytext=(away * across, away * up),
                textcoords="offset points", fontsize=8, zorder=5,
                ha=("center", "left", "right")[across], va=("center", "bottom", "top")[up],
                arrowprops=None if distance == DISTANCES[0] else LEADER | {"color": mark.colour},
            )  # fmt: skip
            box = text.get_window_extent()
            gaps = [_gap(box, mean) for mean in means]
            nearer = sum(gap <= gaps[own] for gap in gaps) - 1
            cost = _overlap(box, taken) + 4 * _outside(box, room) + points * (3 * distance + 40 * nearer)
            found.append((cost, len(found), text, box))
        _, _, kept, box = min(found)
        for _, _, text, _ in found:
            if text is not kept:
                text.remove()
        taken.append(box)


def _around(axes: Axes, place: tuple[float, float], radius: float) -> Bbox:
    """The box of a mark in pixels."""
    x, y = axes.transData.transform(place)
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _gap(one: Bbox, other: Bbox) -> float:
    """Pixels between two boxes."""
    return math.hypot(
        max(one.x0 - other.x1, other.x0 - one.x1, 0.0), max(one.y0 - other.y1, other.y0 - one.y1, 0.0)
    )


def _overlap(box: Bbox, taken: Sequence[Bbox]) -> float:
    """Pixels of a box that are taken already."""
    shared = (Bbox.intersection(box, other) for other in taken)
    return sum(each.width * each.height for each in shared if each is not None)


def _outside(box: Bbox, whole: BboxBase) -> float:
    inside = Bbox.intersection(box, whole)
    return box.width * box.height - (0.0 if inside is None else inside.width * inside.height)
