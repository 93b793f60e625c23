"""The figures of a comparison, and what they leave out."""

from __future__ import annotations

import html
import re
from pathlib import Path

from PIL import Image

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


def test_a_name_in_another_script_gives_no_warning() -> None:
    assert "猫" in render_html(example("猫"))


def test_each_figure_says_in_numbers_what_is_to_be_seen() -> None:
    report = example()
    page, words = render_html(report), {plot.name: plot.words(report) for plot in PLOTS}
    for name in draw_figures(report):
        said = re.search(f'<figure id="{name}">.*?<svg [^>]*role="img" aria-label="([^"]*)"', page, re.DOTALL)
        assert said is not None
        assert html.unescape(said.group(1)) == words[name]
    for row in report.by_confidence or []:
        assert f"{row.low:g} to {row.high:g}: {percent(row.flips.value, 1)}" in words["confidence"]
    point = report.bias_sweep[0].points[0]
    assert f"NFR {percent(point.nfr)}, error {percent(point.er_all)}" in words["bias"]
