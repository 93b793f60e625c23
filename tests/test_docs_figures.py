"""Each picture of docs shows what the kept files say today: the words that it holds are made of them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.common import ROOT
from tools import draw_evidence, draw_flips
from tools.draw_figures import PAGES, PICTURES, words_in

DOCS = ROOT / "docs"
# `test_house` and `test_site` hold the map and the screen; the method is a drawing without data. The features of
# embedding.png were not kept: `mptctl figure embedding` needs the runs.
OTHERS = {"house.svg", "evaluate.svg", "method.svg", "embedding.png"}
DRAWN = {"flip.svg", "evidence-light.svg", "evidence-dark.svg", *PICTURES, *PAGES}


def test_every_picture_of_docs_has_a_source() -> None:
    pictures = {
        str(path.relative_to(DOCS)) for suffix in ("png", "svg") for path in DOCS.rglob(f"*.{suffix}")
    }
    assert pictures == OTHERS | DRAWN


@pytest.mark.parametrize("name", [*PICTURES, *PAGES])
def test_a_figure_is_of_its_kept_files(name: str) -> None:
    made = (PICTURES | PAGES)[name]()
    assert words_in(DOCS / name) == made.words, "run: make docs"


def test_the_flips_of_readme_are_those_of_the_demo() -> None:
    found = draw_flips.most_confident_flips(draw_flips.COUNT)
    assert words_in(DOCS / "flip.svg") == draw_flips.words(found), "run: make docs"


def test_the_bars_of_readme_are_those_of_the_comparison() -> None:
    wanted = draw_evidence.words(draw_evidence.read_bars())
    assert [words_in(path) for path in _evidence()] == [wanted, wanted], "run: make docs"


def _evidence() -> list[Path]:
    return sorted(DOCS.glob("evidence-*.svg"))
