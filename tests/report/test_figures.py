"""Figures: what is drawn where."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb

from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.flip_report import Bin
from mptctl.inference.embedding import Embedding
from mptctl.report.documents.flips_page import drawings
from mptctl.report.figures.embedding import class_colours, draw_embeddings
from mptctl.report.figures.reliability import Panel, draw_reliability
from mptctl.report.media.svg import NEW, style
from tests.report.examples import example, example_page


def made(num_classes: int = 4, num_known: int = 4) -> Embedding:
    """Classes on a circle: each point lies on its class's side, a unit vector away."""
    angles = np.arange(num_known) * 2 * np.pi / num_classes
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.repeat(np.arange(num_known), 5)
    return Embedding(
        points=directions[labels] * np.tile([1.0, 2, 3, 4, 5], num_known)[:, None],
        labels=labels,
        weight=directions,
        bias=np.zeros(num_known),
        columns=np.arange(num_known),
        class_names=tuple(f"c{i}" for i in range(num_classes)),
        num_old=num_classes // 2,
    )


@pytest.mark.parametrize(
    ("panels", "rows", "columns"), [(1, 1, 1), (3, 1, 3), (4, 2, 2), (5, 2, 3), (7, 3, 3)]
)
def test_panels_fill_their_rows(panels: int, rows: int, columns: int) -> None:
    figure = draw_embeddings({str(i): made() for i in range(panels)})
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (rows, columns)


def test_old_and_new_classes_have_their_own_marker_and_every_class_its_colour() -> None:
    (axes,) = draw_embeddings({"run": made()}).axes
    old, new = (each for each in axes.collections if isinstance(each, PathCollection))
    assert (len(old.get_offsets()), len(new.get_offsets())) == (10, 10)
    assert old.get_paths()[0].vertices.shape != new.get_paths()[0].vertices.shape
    colours = class_colours(4)
    assert len(set(colours)) == 4
    assert len(set(class_colours(100))) == 100
    for group, classes in ((old, (0, 1)), (new, (2, 3))):
        found = {tuple(np.round(colour[:3], 6)) for colour in group.get_facecolors()}
        assert found == {tuple(np.round(to_rgb(colours[c]), 6)) for c in classes}


def test_regions_are_those_of_the_classifier() -> None:
    (axes,) = draw_embeddings({"run": made()}).axes
    (image,) = axes.images
    shown = image.get_array()
    left, right, bottom, top = image.get_extent()
    assert (left, bottom) == (-right, -top)
    half = shown.shape[0] // 2
    # Rows from below: right of the middle class 0, above it class 1, left class 2, below class 3.
    places = [(half, -1), (-1, half), (half, 0), (0, half)]
    tones = [tuple(shown[place]) for place in places]
    assert len(set(tones)) == 4
    tints = np.array([_tint(colour) for colour in class_colours(4)])
    assert [int(np.abs(tints - np.array(tone)).sum(axis=1).argmin()) for tone in tones] == [0, 1, 2, 3]


def _tint(colour: str) -> np.ndarray:  # type: ignore[type-arg]
    return 1 - 0.25 * (1 - np.array(to_rgb(colour)))


def bins() -> list[Bin]:
    found = calibrate(np.array([0.35, 0.4, 0.95, 1.0, 1.0]), np.array([True, False, True, True, False]))
    return found.bins


def test_bars_are_accuracies_and_below_them_stand_the_counts() -> None:
    with style():
        figure = draw_reliability([Panel("one", bins(), NEW)])
    above, below = figure.axes
    heights = [bar.get_height() for bar in above.containers[0]]
    assert heights == [0.5, 2 / 3]
    # Up or down to the mean confidence.
    assert np.allclose([bar.get_y() + bar.get_height() for bar in above.containers[1]], [0.375, 2.95 / 3])
    assert [bar.get_height() for bar in below.containers[0]] == [0] * 5 + [2] + [0] * 8 + [3]
    assert [text.get_text() for text in below.texts] == ["2", "3"]


def test_two_models_have_two_panels_on_the_page() -> None:
    report = example()
    (figure,) = (drawing.figure for drawing in drawings(report) if drawing.name == "reliability")
    titles = ["old model, accuracy", "new model, accuracy", "samples", "samples"]
    assert [axes.get_title() for axes in figure.axes] == titles
    assert report.old.reliability is not None and report.new.reliability is not None
    shown = [[text.get_text() for text in axes.texts] for axes in figure.axes[2:]]
    assert shown == [[str(b.n) for b in m.reliability or [] if b.n] for m in (report.old, report.new)]
    page = example_page()
    part = page[page.index('<figure id="reliability"') :]
    part = part[: part.index("</figure>")]
    assert "old model" in part and "new model" in part


def test_bins_of_fewer_than_ten_samples_stand_hollow() -> None:
    right = np.array([True] * 9 + [True] * 10)
    found = calibrate(np.array([0.35] * 9 + [0.95] * 10), right)
    with style():
        above = draw_reliability([Panel("one", found.bins, NEW)]).axes[0]
    few, enough = above.containers[0]
    assert few.get_facecolor()[3] == 0
    assert few.get_edgecolor()[3] == 1
    assert enough.get_facecolor()[3] > 0
