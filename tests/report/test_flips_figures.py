"""The figures of a comparison, and what they leave out."""

from __future__ import annotations

import html
import re
from pathlib import Path

from PIL import Image

from mptctl.report.figures.flips import PLOTS, drawings, figure_files, save_figures
from tests.report.examples import HOSTILE, example, example_page


def test_files(tmp_path: Path) -> None:
    # A name in another script gives no warning, which would be an error here.
    paths = save_figures(example(f"猫 {HOSTILE}"), tmp_path / "figures")
    assert sorted(p.name for p in paths) == sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert sorted(p.name for p in paths) == sorted(figure_files())
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert min(picture.size) > 500


def test_each_figure_has_its_caption_as_alternative_text() -> None:
    report = example()
    page, captions = example_page(), {plot.name: plot.caption for plot in PLOTS}
    for drawing in drawings(report):
        said = re.search(
            f'<figure id="{drawing.name}">.*?<svg [^>]*role="img" aria-label="([^"]*)"', page, re.DOTALL
        )
        assert html.unescape(said.group(1)) == captions[drawing.name]
