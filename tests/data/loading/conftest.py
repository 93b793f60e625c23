"""Splits that no loader resizes, and that batches do not divide evenly, nor classes."""

from __future__ import annotations

import pytest

from mptctl.data.split import Split, make_split
from tests.common import make_folder, smooth_picture


@pytest.fixture(scope="session")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """43 training samples of three classes, 26, 12 and 5, and as many test samples."""
    root = tmp_path_factory.mktemp("43")
    for number in range(43):
        for part in ("train", "val"):
            target = root / part / f"class{(number > 25) + (number > 37)}"
            target.mkdir(parents=True, exist_ok=True)
            smooth_picture(8, 7, number).save(target / f"{number:03d}.jpg")
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


@pytest.fixture(scope="session")
def same_size(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """24 training pictures of the size that the model sees, which no loader resizes."""
    root = make_folder(tmp_path_factory.mktemp("data") / "f", classes=3, train=8, val=1, size=32)
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )
