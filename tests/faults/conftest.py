"""What tests of faults share: predictions whose gate fails, and a run root with trained models."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Predictions of an old and a new model: 200 samples of 4 classes, 20 negative flips."""
    return write_pair(tmp_path, np.arange(4))


def write_pair(folder: Path, names: np.ndarray) -> tuple[Path, Path]:
    """The same with other names of classes."""
    label = np.random.default_rng(0).integers(0, 4, 200)
    new = np.where(np.arange(200) < 20, (label + 1) % 4, label)
    paths = folder / "old.npz", folder / "new.npz"
    for path, pred in zip(paths, (label, new), strict=True):
        np.savez(path, id=np.arange(200), label=names[label], pred=names[pred], classes=names)
    return paths


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return shutil.copytree(trained, tmp_path / "runs")
