"""The figures of a comparison, and what they leave out."""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

from PIL import Image

from mptctl.evaluation.flip_report import PairRow
from mptctl.report.documents.flips_page import render_html
from mptctl.report.figures.flips import PLOTS, draw_figures, figure_files, save_figures
from mptctl.report.media.numbers import percent
from tests.report.examples import HOSTILE, example


def test_files(tmp_path: Path) -> None:
    paths = save_figures(example(HOSTILE), tmp_path / "figures")
    assert sorted(p.name for p in paths) == sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert sorted(p.name for p in paths) == sorted(figure_files())
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert min(picture.size) > 500


def test_the_flow_shows_the_worst_classes_and_all_that_they_lost() -> None:
    report = example(many=60)
    axes = draw_figures(report)["flow"].axes[0]
    found = [re.fullmatch(r"(.*) \(([\d,]+)\)", text.get_text()) for text in axes.texts]
    flips = [(match.group(1), int(match.group(2))) for match in found if match]
    lost: Counter[str] = Counter()
    for row in report.pairs:
        lost[row.label] += row.flips
    worst = dict(lost.most_common(8))
    assert flips[:8] == list(worst.items())
    assert sum(count for _, count in flips[8:]) == sum(worst.values())
    bottom, top = axes.get_ylim()
    assert all(top < text.get_position()[1] < bottom for text in axes.texts)
    of = f"8 of {len(lost)} classes with flips, {sum(worst.values())} of {report.counts.negative_flips} flips"
    assert axes.get_title() == of


def test_the_flow_keeps_other_old_and_other_new_answers_apart() -> None:
    pairs = [PairRow(label="a", answer=f"o{i}", new_class=False, flips=9 - i // 4) for i in range(9)]
    pairs += [PairRow(label="a", answer=f"n{i}", new_class=True, flips=1) for i in range(3)]
    figure = draw_figures(example().model_copy(update={"pairs": pairs}))["flow"]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[-2:] == ["other old (7)", "other new (3)"]


def test_a_name_in_another_script_gives_no_warning() -> None:
    assert "猫" in render_html(example("猫"))


def test_each_figure_says_in_numbers_what_is_to_be_seen() -> None:
    report = example()
    page, words = render_html(report), {plot.name: plot.words(report) for plot in PLOTS}
    for name in draw_figures(report):
        said = re.search(f'<figure id="{name}">.*?<svg [^>]*role="img" aria-label="([^"]*)"', page, re.DOTALL)
        assert said is not None
        assert html.unescape(said.group(1)) == words[name]
    lost = report.counts.negative_flips
    assert (
        f"Flow of {lost} negative flips: {report.destinations.to_old_class.count} / {lost}" in words["flow"]
    )
    pair = report.pairs[0]
    assert f"The largest: {pair.label} to {pair.answer}: {pair.flips}" in words["flow"]
    for row in report.by_confidence or []:
        assert f"{row.low:g} to {row.high:g}: {percent(row.flips.value, 1)}" in words["confidence"]
    point = report.bias_sweep[0].points[0]
    assert f"NFR {percent(point.nfr)}, error {percent(point.er_all)}" in words["bias"]


def test_what_a_figure_says_of_a_hostile_name_stays_text() -> None:
    page = render_html(example(HOSTILE))
    assert 'aria-label="Flow of' in page
    assert html.escape(HOSTILE) in page
    assert "<script>alert" not in page
