"""Each picture of docs shows what the kept files say today: the words that it holds are made of them again."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from mptctl.inference.embedding import Embedding
from tests.common import ROOT
from tools import draw_evidence, draw_flips, kept_embeddings
from tools.draw_figures import PAGES, PICTURES, words_in

pytestmark = pytest.mark.docs

DOCS = ROOT / "docs"
# `test_site` holds the screens; the method is a drawing without data.
OTHERS = {"evaluate.svg", "demo.svg", "method.svg"}
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


def test_kept_features_are_read_as_they_were_written(tmp_path: Path) -> None:
    old = Embedding(
        points=np.array([[1, 0], [0, 2]], np.float32),
        labels=np.array([0, 1]),
        weight=np.array([[3, 1], [2, 0]], np.float32),  # both pictures are taken for class 0
        bias=np.zeros(2, np.float32),
        columns=np.array([0, 1]),
        class_names=("cat", "dog", "frog"),
        num_old=2,
    )
    new = replace(old, bias=np.array([0, 3], np.float32))
    path = tmp_path / "features.npz"
    kept_embeddings.write_embeddings({"old": old, "mpt-kl": new}, path)
    read = kept_embeddings.read_embeddings(path)
    assert list(read) == ["old", "mpt-kl"]
    for name, wanted in (("old", old), ("mpt-kl", new)):
        np.testing.assert_equal(asdict(read[name]), asdict(wanted))
    said = kept_embeddings.words(read)
    assert said == kept_embeddings.words({"old": old, "mpt-kl": new})
    assert said.startswith("old: 1 errors on 2 pictures, features ")
    moved = replace(old, points=old.points + np.float32(1e-6))
    assert kept_embeddings.words({"old": moved}) != kept_embeddings.words({"old": old})
