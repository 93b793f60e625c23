"""Characters: the same bytes each time, parts that share nothing, and a cache that is not trusted."""

from __future__ import annotations

import hashlib
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data import characters
from mptctl.data.characters import CLASS_NAMES, FONTS, SQUARE, draw_characters, load_characters
from mptctl.data.embedded import read
from mptctl.data.embedded.read import read_glyphs
from mptctl.data.manifest import content_digest
from mptctl.data.split import Split, load_split, make_split
from mptctl.errors import DataError
from tests.common import DAMAGES, damage
from tools.draw_glyphs import draw


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pictures a class instead of 480."""
    monkeypatch.setattr(characters, "TRAIN_PER_CLASS", 4)
    monkeypatch.setattr(characters, "TEST_PER_CLASS", 2)


@pytest.fixture
def split(few: None, tmp_path: Path) -> Split:
    """A split of few pictures."""
    return make_split("characters", run_root=tmp_path / "runs", seed=3, val_fraction=0.25)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """The split that a user gets."""
    return make_split("characters", run_root=tmp_path_factory.mktemp("characters"))


def cache_file(split: Split) -> Path:
    (path,) = (split.run_root / "cache").iterdir()
    return path


def test_another_seed_gives_other_bytes(few: None) -> None:
    """That one gives the same in every process, test_sources shows by their digest."""
    first, again, other = (content_digest(draw_characters(seed)[0]) for seed in (3, 3, 4))
    assert first == again != other


def test_every_part_has_as_many_pictures_of_every_class(whole: Split) -> None:
    for part, count in (("train", 264), ("val", 66), ("test", 150)):
        rows = whole.indices(part)  # type: ignore[arg-type]
        assert np.bincount(whole.labels[rows], minlength=62).tolist() == [count] * 62
    assert whole.classes.old == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ23479")
    assert whole.classes.new == tuple("01568abcdefghijklmnopqrstuvwxyz")


def test_no_picture_is_there_twice_in_one_part_or_in_two(whole: Split) -> None:
    digests = {hashlib.blake2b(picture.tobytes()).digest() for picture in whole.array}
    assert len(digests) == len(whole.manifest)


@pytest.mark.parametrize("how", [*DAMAGES, "other shape"])
def test_a_damaged_cache_is_found_by_its_digest_and_drawn_again(split: Split, how: str) -> None:
    before, path = split.array.copy(), cache_file(split)
    if how == "other shape":
        np.save(path, before[:-1])
    else:
        damage(path, how)
    np.testing.assert_array_equal(load_split(split.run_root).array, before)
    np.testing.assert_array_equal(np.load(cache_file(split)), before)


def test_characters_are_drawn_once(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "GLYPHS", Path("no-glyphs"))
    characters._compute_glyph_distances.cache_clear()
    assert load_split(split.run_root).array.shape == (372, 16, 16, 3)


def test_pictures_that_would_be_drawn_otherwise_are_refused(split: Split, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"another version of mptctl drew.*split --overwrite"):
        load_characters(split.manifest.content, 4, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("how", [*DAMAGES, "other size"])
def test_glyphs_that_cannot_be_read_are_named(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glyphs = Path(shutil.copy(read.GLYPHS, tmp_path))
    if how == "other size":
        Image.new("1", (64, 64)).save(glyphs)
    else:
        damage(glyphs, how)
    monkeypatch.setattr(read, "GLYPHS", glyphs)
    characters._compute_glyph_distances.cache_clear()
    with pytest.raises(DataError, match=rf"{glyphs}: missing or damaged; install mptctl again"):
        make_split("characters", run_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(version("matplotlib") != "3.11.2", reason="another version may draw other glyphs")
def test_the_glyphs_that_come_with_the_package_are_those_that_the_tool_draws() -> None:
    np.testing.assert_array_equal(draw(), read_glyphs(len(FONTS), len(CLASS_NAMES), SQUARE))
