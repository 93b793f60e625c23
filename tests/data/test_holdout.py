"""The validation part: the same share of each class, drawn by the seed, and never a whole class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from mptctl.errors import DataError


@pytest.mark.parametrize(("fraction", "held"), [(0.0, 0), (0.1, 1), (0.25, 3), (0.5, 5)])
def test_the_validation_part_is_the_same_share_of_each_class(
    tmp_path: Path, folder: Path, fraction: float, held: int
) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, val_fraction=fraction)
    assert np.bincount(split.labels[split.indices("val")], minlength=4).tolist() == [held] * 4
    assert len(split.indices("train")) == 40 - 4 * held
    assert len(split.indices("test")) == 16


def test_the_validation_part_depends_on_the_seed_and_not_on_the_class_order(tmp_path: Path) -> None:
    splits = [
        make_split("digits", run_root=tmp_path / str(number), seed=seed, order=order)
        for number, (seed, order) in enumerate([(0, "given"), (0, "random"), (1, "given")])
    ]
    held = [set(split.indices("val").tolist()) for split in splits]
    assert held[0] == held[1]
    assert len(held[0] & held[2]) < len(held[0]) / 2
    assert len({split.fingerprint for split in splits}) == 3


def test_a_class_that_would_lose_all_its_training_pictures_is_refused(
    tmp_path: Path, own_folder: Path
) -> None:
    with pytest.raises(DataError, match="no training picture is left of 4 classes"):
        make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder, val_fraction=0.99)
