"""The reliability diagram: a panel for each model, with the counts of its bins; on the comparison's page both."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.flip_report import Bin
from mptctl.report.figures.flips import drawings
from mptctl.report.figures.reliability import Panel, draw_reliability
from mptctl.report.media.svg import NEW, style
from tests.report.examples import example, example_page


def bins() -> list[Bin]:
    found = calibrate(np.array([0.35, 0.4, 0.95, 1.0, 1.0]), np.array([True, False, True, True, False]))
    return found.bins


def test_bars_are_accuracies_and_below_them_stand_the_counts() -> None:
    with style():
        figure = draw_reliability([Panel("one", bins(), NEW)])
    above, below = figure.axes
    heights = [bar.get_height() for bar in above.containers[0]]
    assert heights == [0.5, 2 / 3]
    tops = [
        bar.get_y() + bar.get_height() for bar in above.containers[1]
    ]  # up or down to the mean confidence
    assert np.allclose(tops, [0.375, 2.95 / 3])
    assert [bar.get_height() for bar in below.containers[0]] == [0] * 5 + [2] + [0] * 8 + [3]
    assert [text.get_text() for text in below.texts] == ["2", "3"]


def test_two_models_have_two_panels_on_the_page() -> None:
    report = example()
    (figure,) = (drawing.figure for drawing in drawings(report) if drawing.name == "reliability")
    assert [axes.get_title() for axes in figure.axes] == [
        "old model, accuracy",
        "new model, accuracy",
        "samples",
        "samples",
    ]
    assert report.old.reliability is not None and report.new.reliability is not None
    shown = [[text.get_text() for text in axes.texts] for axes in figure.axes[2:]]
    assert shown == [[str(b.n) for b in m.reliability or [] if b.n] for m in (report.old, report.new)]
    page = example_page()
    part = page[page.index('<figure id="reliability"') :]
    part = part[: part.index("</figure>")]
    assert "old model" in part and "new model" in part


def test_a_model_without_logits_has_no_panel() -> None:
    assert drawings(example(with_logits=False)) == []


def test_bins_of_fewer_than_ten_samples_stand_hollow() -> None:
    right = np.array([True] * 9 + [True] * 10)
    found = calibrate(np.array([0.35] * 9 + [0.95] * 10), right)
    with style():
        above = draw_reliability([Panel("one", found.bins, NEW)]).axes[0]
    few, enough = above.containers[0]
    assert few.get_facecolor()[3] == 0
    assert few.get_edgecolor()[3] == 1
    assert enough.get_facecolor()[3] > 0
