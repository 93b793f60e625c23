"""Draw the figure of a comparison of methods: NFR against error, for every method and seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox, BboxBase

from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, shorten, style
from mptctl.studies.comparison import BIAS_ROW, ComparisonRow

# Twenty looks: the colour changes with each row, the marker with every fifth.
COLOURS, MARKS = (OLD, NEW, LOST, FRESH, INK), ("o", "s", "^", "D")
# Letters of a name that is shown in full.
LETTERS = 24
# Points squared of a mark of a seed or in the inset, and of a mean's mark at the cost of a plain training.
SEED_AREA, COST_AREA = 12, 40
# Marks are outliers if all others lie within this share of the axis; at most one mark in four may be one.
CROWDED, OUTLIERS = 0.6, 4
# Inches of an inset.
INSET = (1.7, 1.2)
# Points between a mark and its name; from the second distance on, a line joins them.
DISTANCES = (2, 12, 24, 38)
LEADER = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


class _Mark(NamedTuple):
    """The marks of a row of the comparison.

    Attributes:
        row: of the comparison.
        colour: of its marks.
        marker: their shape.
        mean: error and NFR over seeds, in percent.
        seeds: error and NFR of each seed, in percent.
    """

    row: ComparisonRow
    colour: str
    marker: str
    mean: tuple[float, float]
    seeds: list[tuple[float, float]]

    @property
    def area(self) -> float:
        """Points squared of the mean's mark, in proportion to the cost of training."""
        return COST_AREA * (1.0 if self.row.cost is None else self.row.cost)

    @property
    def fill(self) -> str:
        """The colour inside the marks; none for the shifted plain update, which costs no training."""
        return "none" if self.row.method == BIAS_ROW else self.colour


def draw_trade_off(rows: list[ComparisonRow]) -> Figure:
    """Draw NFR over error on all classes, for every method and seed; each method is named beside its mark.

    Rows far above all others in either rate stand in an inset, so that the others have room.
    """
    marks = _marks(rows)
    outliers = _outliers(marks)
    near = [mark for mark in marks if mark not in outliers]
    with style():
        height = SIZE[1] + 0.1 * len(rows)
        figure = Figure(figsize=(SIZE[0], height + INSET[1] if outliers else height))
        axes = figure.subplots()
        for mark in near:
            _draw_mark(axes, mark)
        axes.set(xlabel="error on all classes, %", ylabel="NFR, %")
        axes.margins(x=0.15, y=0.1)
        # Above all marks there is room for the inset.
        axes.set_ylim(0, axes.get_ylim()[1] * (1 + INSET[1] / height if outliers else 1))
        inset = _draw_inset(figure, axes, marks) if outliers else None
        figure.draw_without_rendering()  # computes the layout, so that marks have places in pixels
        _write_names(figure, axes, near)
        if inset is not None:
            _write_names(figure, inset, outliers, is_inset=True)
    return figure


def _marks(rows: list[ComparisonRow]) -> list[_Mark]:
    """The marks of the rows that have both rates; the shifted plain update looks like the plain update."""
    trained_rows = [row for row in rows if row.method != BIAS_ROW]
    looks = {
        row.name: (COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)])
        for i, row in enumerate(trained_rows)
    }
    marks = []
    for row in rows:
        if row.er_all.mean is not None and row.nfr.mean is not None:
            seeds = [
                (100 * error, 100 * nfr)
                for error, nfr in zip(row.er_all.values, row.nfr.values, strict=True)
                if error is not None and nfr is not None
            ]
            colour, marker = looks.get(row.name, (COLOURS[0], MARKS[0]))
            mean = 100 * row.er_all.mean, 100 * row.nfr.mean
            marks.append(_Mark(row, colour, marker, mean, seeds))
    return marks


def _outliers(marks: Sequence[_Mark]) -> list[_Mark]:
    """The marks so far above all others, by error or else by NFR, that the others take little of that axis.

    Empty where no mark is. The axis of NFR begins at 0, the axis of error at the smallest error.
    """
    for axis, count in product((0, 1), range(1, len(marks) // OUTLIERS + 1)):
        ordered = sorted(marks, key=lambda mark: mark.mean[axis])
        low = 0.0 if axis else ordered[0].mean[0]
        largest_other, smallest_outlier = ordered[-1 - count], ordered[-count]
        if largest_other.mean[axis] - low < CROWDED * (smallest_outlier.mean[axis] - low):
            return ordered[-count:]
    return []


def _draw_mark(axes: Axes, mark: _Mark) -> None:
    """Draw a mark for the mean, its area by the cost, and lines to a small mark for each seed."""
    x, y = mark.mean
    for error, nfr in mark.seeds:
        axes.plot([x, error], [y, nfr], color=mark.colour, linewidth=0.6, alpha=0.6)
        axes.scatter(
            [error], [nfr], s=SEED_AREA, facecolors=mark.fill, edgecolors=mark.colour, marker=mark.marker,
            linewidths=0.8, clip_on=False, zorder=4,
        )  # fmt: skip
    # Small marks lie above large ones, so that none is hidden.
    axes.scatter(
        [x], [y], s=mark.area, facecolors=mark.fill, edgecolors=mark.colour, marker=mark.marker,
        clip_on=False, label=mark.row.name, alpha=0.6, zorder=3 - mark.area / 10**6,
    )  # fmt: skip


def _draw_inset(figure: Figure, axes: Axes, marks: Sequence[_Mark]) -> Axes:
    """Draw the means of all rows as small marks, at the top right of the axes, and return the inset."""
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


class _Label(NamedTuple):
    """A name written at one place.

    Attributes:
        cost: the less the place hides and the nearer it is to its own mark, the lower.
        text: in the figure.
        box: of the text, in pixels.
    """

    cost: float
    text: Annotation
    box: Bbox


def _write_names(figure: Figure, axes: Axes, marks: Sequence[_Mark], *, is_inset: bool = False) -> None:
    """Write the name of each mark at the place around it that costs least, highest NFR first.

    Costs are the pixels hidden, four times the pixels outside the room, the distance, and other marks nearer.

    Args:
        figure: its layout is computed.
        axes: of the marks.
        marks: to be named.
        is_inset: names keep to the axes, not to the whole figure; seeds have no marks.
    """
    pixels_a_point = figure.dpi / 72
    room = axes.bbox if is_inset else figure.bbox
    radii = [pixels_a_point * 0.5 * math.sqrt(SEED_AREA if is_inset else mark.area) for mark in marks]
    means = [_box_around(axes, mark.mean, radius) for mark, radius in zip(marks, radii, strict=True)]
    seeds = [] if is_inset else [seed for mark in marks for seed in mark.seeds]
    taken = [*means, *(_box_around(axes, seed, 2 * pixels_a_point) for seed in seeds)]
    for own, mark in sorted(enumerate(marks), key=lambda numbered: -numbered[1].mean[1]):
        labels = list[_Label]()
        for distance, across, up in product(DISTANCES, (1, -1, 0), (0, 1, -1)):
            if (across, up) == (0, 0):
                continue
            offset = distance + radii[own] / pixels_a_point
            text = axes.annotate(
                shorten(mark.row.name, LETTERS), mark.mean, xytext=(offset * across, offset * up),
                textcoords="offset points", fontsize=8, zorder=5,
                ha=("center", "left", "right")[across], va=("center", "bottom", "top")[up],
                arrowprops=None if distance == DISTANCES[0] else LEADER | {"color": mark.colour},
            )  # fmt: skip
            box = text.get_window_extent()
            gaps = [_gap(box, mean) for mean in means]
            nearer_marks = sum(gap <= gaps[own] for gap in gaps) - 1
            far = pixels_a_point * (3 * distance + 40 * nearer_marks)
            labels.append(_Label(_area_taken(box, taken) + 4 * _area_outside(box, room) + far, text, box))
        best = min(labels, key=lambda label: label.cost)
        for label in labels:
            if label is not best:
                label.text.remove()
        taken.append(best.box)


def _box_around(axes: Axes, place: tuple[float, float], radius: float) -> Bbox:
    """The square around a place of the axes, in pixels as its radius."""
    x, y = axes.transData.transform(place)
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _gap(one: Bbox, other: Bbox) -> float:
    """Pixels between two boxes; 0 where they overlap."""
    return math.hypot(
        max(one.x0 - other.x1, other.x0 - one.x1, 0.0), max(one.y0 - other.y1, other.y0 - one.y1, 0.0)
    )


def _area_taken(box: Bbox, taken: Sequence[Bbox]) -> float:
    """Square pixels of a box that other boxes take, counted for each of them."""
    shared = (Bbox.intersection(box, other) for other in taken)
    return sum(each.width * each.height for each in shared if each is not None)


def _area_outside(box: Bbox, room: BboxBase) -> float:
    """Square pixels of a box outside a room."""
    inside = Bbox.intersection(box, room)
    return box.width * box.height - (0.0 if inside is None else inside.width * inside.height)
