"""Pictures of flipped samples: whole, small, and from nowhere but the data."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

from mptctl.report.media.pictures import LARGEST, data_url, pictures_below


def test_a_picture_survives() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (6, 9, 3)).astype(np.uint8)
    url = data_url(picture)
    found = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    np.testing.assert_array_equal(np.asarray(found), picture)


def test_a_large_picture_is_made_smaller() -> None:
    url = data_url(np.zeros((300, 600, 3), dtype=np.uint8))
    found = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    assert found.size == (LARGEST, LARGEST // 2)


def test_pictures_are_read_below_the_root_alone(tmp_path: Path) -> None:
    (tmp_path / "data" / "a").mkdir(parents=True)
    Image.new("L", (4, 3), 7).save(tmp_path / "data" / "a" / "x.png")
    Image.new("RGB", (4, 3)).save(tmp_path / "secret.png")
    (tmp_path / "data" / "note.txt").write_text("no picture")
    read = pictures_below(tmp_path / "data")
    found = read("a/x.png")
    assert found.shape == (3, 4, 3)
    assert (found == 7).all()
    for sample in ("../secret.png", str(tmp_path / "secret.png"), "note.txt", "nowhere.png", "a"):
        assert read(sample) is None
